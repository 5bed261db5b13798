package signet

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// maxAnswer is above any page of a list: 100 events of 256 KiB, escaped.
const maxAnswer = 64 << 20

// Warning is a problem that does not fail a call.
type Warning struct {
	// Code is REFRESH_FAILED, STORE_UNREADABLE, STORE_EXPOSED or SUCCESSOR_NOT_STORED.
	Code    string
	Message string
	// Err is the cause; nil without one.
	Err error
}

func logWarning(warning Warning) {
	slog.Warn("signet: "+warning.Message, "code", warning.Code, "error", warning.Err)
}

// core has what tests replace: network, time, randomness and warnings.
type core struct {
	client  *http.Client
	now     func() time.Time
	random  func() float64
	sleep   func(context.Context, time.Duration) error
	warn    func(Warning)
	retry   RetryPolicy
	timeout time.Duration
}

func (r *core) withDefaults() *core {
	if r.now == nil {
		r.now = time.Now
	}
	if r.random == nil {
		r.random = rand.Float64
	}
	if r.sleep == nil {
		r.sleep = sleep
	}
	if r.warn == nil {
		r.warn = logWarning
	}
	return r
}

func sleep(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// ended returns the reason why the caller's context has ended. errors.Is finds context.Canceled.
func ended(ctx context.Context) error { return fmt.Errorf("signet: %w", context.Cause(ctx)) }

// exchange is one request.
type exchange struct {
	method, url string
	header      http.Header
	body        []byte
	// confidential texts are kept out of errors if an intermediary echoes them: the secret, the token.
	confidential []string
}

// perform sends the request once and returns the body of the answer. Any status but 2xx is an [*APIError].
func (r *core) perform(ctx context.Context, e exchange) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	e.header.Set("Accept", "application/json")
	response, err := r.begin(ctx, limited, e)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := readAnswer(response)
	if err != nil {
		return nil, transportError(ctx, limited, response.Request.URL, err)
	}
	return body, nil
}

// begin sends the request and returns the answer, whose body the caller must read and close.
func (r *core) begin(ctx, limited context.Context, e exchange) (*http.Response, error) {
	request, err := http.NewRequestWithContext(limited, e.method, e.url, bytes.NewReader(e.body))
	if err != nil {
		return nil, fmt.Errorf("signet: %w", err)
	}
	request.Header = e.header
	request.Header.Set("User-Agent", "signet-go/"+Version)
	response, err := r.client.Do(request)
	if err != nil {
		return nil, transportError(ctx, limited, request.URL, err)
	}
	if response.StatusCode >= 200 && response.StatusCode <= 299 {
		return response, nil
	}
	defer response.Body.Close()
	body, err := readAnswer(response)
	if err != nil {
		return nil, transportError(ctx, limited, request.URL, err)
	}
	return nil, r.apiError(response, body, e.confidential)
}

func readAnswer(response *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	return body, err
}

func (r *core) apiError(response *http.Response, body []byte, confidential []string) error {
	for _, secret := range confidential {
		if secret != "" {
			body = bytes.ReplaceAll(body, []byte(secret), []byte("[removed]"))
		}
	}
	found := problemError(response.StatusCode, body)
	found.RequestID = first(found.RequestID, response.Header.Get("X-Request-Id"))
	found.RetryAfter, found.waits = retryAfter(response.Header.Get("Retry-After"), r.now())
	return found
}

// transportError tells apart the end of the caller's context, of the time for one request, and of the connection.
func transportError(ctx, limited context.Context, address *url.URL, err error) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	origin := address.Scheme + "://" + address.Host
	if limited.Err() != nil {
		return &TransportError{FailureTimeout, origin + " has not answered in time", context.DeadlineExceeded}
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		// It repeats method and address.
		err = wrapped.Err
	}
	return &TransportError{FailureConnection, fmt.Sprintf("%s cannot be reached: %v", origin, err), err}
}

func invalidAnswer(detail string) error {
	return &TransportError{Code: FailureInvalidAnswer, Detail: detail}
}

func basicAuthorization(clientID, secret string) string {
	// RFC 6749 section 2.3.1 encodes both as in a form.
	pair := url.QueryEscape(clientID) + ":" + url.QueryEscape(secret)
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair))
}
