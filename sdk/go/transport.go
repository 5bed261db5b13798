package signet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// CallOption changes one call.
type CallOption func(*call)

// WithIdempotencyKey sets the key of a POST: 1 to 255 printable ASCII characters. By default, each call has a key of its own,
// which its retries share. Pass one to be safe across a crash: for 24 hours the service repeats its first answer.
func WithIdempotencyKey(key string) CallOption {
	return func(c *call) { c.idempotencyKey = key }
}

// call is one call of the API.
type call struct {
	method string
	// path is below the base address, with encoded segments.
	path  string
	query url.Values
	// body is sent as JSON; nil for none.
	body           any
	idempotencyKey string
}

// transport calls the API with a token, and retries what is safe to repeat.
type transport struct {
	core    *core
	baseURL string
	// regions has the addresses of other regions' APIs, which may get the token, too.
	regions []string
	source  *tokenSource

	mu sync.Mutex
	// elsewhere has the region's API by kind of path, as answers 421 have named it.
	elsewhere map[string]string
}

// at returns a path in which each {} is an id, encoded as one segment.
func at(path string, ids ...any) string {
	for _, id := range ids {
		path = strings.Replace(path, "{}", url.PathEscape(fmt.Sprint(id)), 1)
	}
	return path
}

// get, read, post and patch return the decoded answer.
func get[T any](ctx context.Context, t *transport, path string, query url.Values) (*T, error) {
	return decoded[T](t.perform(ctx, call{method: http.MethodGet, path: path, query: query}))
}

// read sends a POST that changes nothing. It needs no key, under which the service would store the answer.
func read[T any](ctx context.Context, t *transport, path string, body any) (*T, error) {
	return decoded[T](t.perform(ctx, call{method: http.MethodPost, path: path, body: body}))
}

func post[T any](ctx context.Context, t *transport, path string, body any, options []CallOption) (*T, error) {
	return decoded[T](t.post(ctx, path, body, options))
}

func patch[T any](ctx context.Context, t *transport, path string, body any) (*T, error) {
	return decoded[T](t.perform(ctx, call{method: http.MethodPatch, path: path, body: body}))
}

// post sends every POST with an idempotency key, so that it is safe to repeat.
func (t *transport) post(ctx context.Context, path string, body any, options []CallOption) ([]byte, error) {
	request := call{method: http.MethodPost, path: path, body: body}
	for _, option := range options {
		option(&request)
	}
	if request.idempotencyKey == "" {
		request.idempotencyKey = randomID()
	}
	return t.perform(ctx, request)
}

func (t *transport) remove(ctx context.Context, path string, query url.Values) error {
	_, err := t.perform(ctx, call{method: http.MethodDelete, path: path, query: query})
	return err
}

func decoded[T any](body []byte, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	var answer T
	if decodeJSON(body, &answer) != nil {
		// Without the parser's error, which could quote the text.
		return nil, invalidAnswer(fmt.Sprintf("the answer is not the JSON of a %T", answer))
	}
	return &answer, nil
}

// perform makes a call and returns the body of its answer.
func (t *transport) perform(ctx context.Context, c call) ([]byte, error) {
	return perform(ctx, t, c, t.core.perform)
}

// perform makes a call by the given exchange, with a token, and repeats it if that helps and is safe.
func perform[T any](
	ctx context.Context, t *transport, c call, send func(context.Context, exchange) (T, error),
) (T, error) {
	body, err := encodeJSON(c.body)
	if err != nil {
		var none T
		return none, fmt.Errorf("signet: the request cannot be written as JSON: %w", err)
	}
	repeat := isRepeatable
	if c.method == http.MethodPatch {
		repeat = isRateLimited
	}
	sent := false
	return withRetries(ctx, t.core, func(err error) bool { return sent && repeat(err) },
		func(attempt int) (answer T, err error) {
			sent = false
			token, err := t.source.token(ctx)
			if err != nil {
				// The source has already retried its own requests.
				return answer, err
			}
			sent = true
			address := t.address(c)
			answer, err = send(ctx, c.exchange(address, body, token))
			var api *APIError
			switch {
			case !errors.As(err, &api):
				return answer, t.forget(c, address, err)
			case api.StatusCode == http.StatusUnauthorized && freshTokenHelps(api.Code):
				if token, err = t.source.tokenInsteadOf(ctx, token.Value); err != nil {
					return answer, err
				}
				answer, err = send(ctx, c.exchange(address, body, token))
				return answer, t.forget(c, address, err)
			case api.StatusCode == http.StatusMisdirectedRequest && t.learn(c, address, api):
				// The request was not processed, so any method may be sent again.
				address = t.address(c)
				answer, err = send(ctx, c.exchange(address, body, token))
				return answer, t.forget(c, address, err)
			case c.method == http.MethodDelete && attempt > 0 && api.StatusCode == http.StatusNotFound:
				// The first request succeeded, but its answer was lost.
				return answer, nil
			}
			return answer, err
		})
}

func freshTokenHelps(code ErrorCode) bool {
	return code == CodeTokenExpired || code == CodeTokenRevoked || code == CodeCertBindingMismatch
}

// kind returns the part of the path that decides which region's API serves it, for instance /v1/events.
func (c call) kind() string {
	parts := strings.SplitN(c.path, "/", 4)
	return strings.Join(parts[:min(3, len(parts))], "/")
}

// address returns the address of the API that serves the call, as far as is known.
func (t *transport) address(c call) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return first(t.elsewhere[c.kind()], t.baseURL)
}

// learn keeps the address that an answer 421 names, and reports whether the call should go there: not if it has just been
// there, and not if the caller has not listed the address. An answer could name any host.
func (t *transport) learn(c call, asked string, answer *APIError) bool {
	var named struct {
		BaseURL string `json:"base_url"`
	}
	if json.Unmarshal(answer.Problem, &named) != nil {
		return false
	}
	address, err := readBaseURL(named.BaseURL, true)
	if err != nil || address == asked {
		return false
	}
	if address != t.baseURL && !slices.Contains(t.regions, address) {
		answer.Detail = strings.TrimSpace(fmt.Sprintf(
			"%s The client sends no token to %s: add it to RegionURLs if it is an API of yours.", answer.Detail, address,
		))
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.elsewhere[c.kind()] = address
	return true
}

// forget drops a learned address that gave no usable answer, because the first API may name another. It returns err.
func (t *transport) forget(c call, address string, err error) error {
	var failed *TransportError
	if errors.As(err, &failed) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.elsewhere[c.kind()] == address {
			delete(t.elsewhere, c.kind())
		}
	}
	return err
}

func (c call) exchange(address string, body []byte, token AccessToken) exchange {
	address += c.path
	if len(c.query) > 0 {
		address += "?" + c.query.Encode()
	}
	header := http.Header{"Authorization": {"Bearer " + token.Value}}
	if body != nil {
		header.Set("Content-Type", "application/json")
	}
	if c.idempotencyKey != "" {
		header.Set("Idempotency-Key", c.idempotencyKey)
	}
	return exchange{
		method: c.method, url: address, header: header, body: body, confidential: []string{token.Value},
	}
}

// encodeJSON keeps <, > and & as they are, because the service keeps the bytes of an event's data.
func encodeJSON(value any) ([]byte, error) {
	if value == nil {
		return nil, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// values returns a query of names and values, of which empty ones are left out.
func values(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		set(query, pairs[i], pairs[i+1])
	}
	return query
}

// set adds a parameter of a query unless it is empty.
func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

func setTime(query url.Values, name string, at time.Time) {
	if !at.IsZero() {
		query.Set(name, at.UTC().Format(time.RFC3339Nano))
	}
}

func setInt(query url.Values, name string, number int64) {
	if number != 0 {
		query.Set(name, fmt.Sprint(number))
	}
}

func setFlag(query url.Values, name string, flag bool) {
	if flag {
		query.Set(name, "true")
	}
}

func setMetadata(query url.Values, metadata map[string]string) {
	for key, value := range metadata {
		query.Set("metadata["+key+"]", value)
	}
}
