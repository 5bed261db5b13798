package signet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
	source  *tokenSource
}

// segment encodes an id as one segment of a path.
func segment(id string) string { return url.PathEscape(id) }

// get, post, patch and remove return the decoded answer.
func get[T any](ctx context.Context, t *transport, path string, query url.Values) (*T, error) {
	return decoded[T](t.perform(ctx, call{method: http.MethodGet, path: path, query: query}))
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

func (t *transport) remove(ctx context.Context, path string) error {
	_, err := t.perform(ctx, call{method: http.MethodDelete, path: path})
	return err
}

func decoded[T any](body []byte, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	var answer T
	if json.Unmarshal(body, &answer) != nil {
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
			answer, err = send(ctx, t.exchange(c, body, token))
			var api *APIError
			switch {
			case !errors.As(err, &api):
				return answer, err
			case api.StatusCode == http.StatusUnauthorized && freshTokenHelps(api.Code):
				if token, err = t.source.tokenInsteadOf(ctx, token.Value); err != nil {
					return answer, err
				}
				return send(ctx, t.exchange(c, body, token))
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

func (t *transport) exchange(c call, body []byte, token AccessToken) exchange {
	address := t.baseURL + c.path
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
