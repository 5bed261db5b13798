package signet

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"
)

// RetryPolicy says how often and how fast to retry. A zero field has its default.
type RetryPolicy struct {
	// Attempts is the maximum number of requests, including the first; 4 by default, and 1 never retries.
	Attempts int
	// Base is the longest pause before the second request; 250 ms by default. It doubles from there.
	Base time.Duration
	// Max is the longest pause; 8 s by default.
	Max time.Duration
	// MaxRetryAfter is the longest Retry-After to wait for; 30 s by default. Beyond it, the caller gets the error.
	MaxRetryAfter time.Duration
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.Attempts == 0 {
		p.Attempts = 4
	}
	if p.Base == 0 {
		p.Base = 250 * time.Millisecond
	}
	if p.Max == 0 {
		p.Max = 8 * time.Second
	}
	if p.MaxRetryAfter == 0 {
		p.MaxRetryAfter = 30 * time.Second
	}
	return p
}

// longestWait is the longest time that a time.Duration can hold in whole seconds.
const longestWait = math.MaxInt64 / time.Second * time.Second

// retryAfter reads Retry-After (RFC 9110 section 10.2.3): seconds or a date. It reports whether there is a valid one.
func retryAfter(header string, now time.Time) (time.Duration, bool) {
	seconds, err := strconv.ParseUint(header, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(longestWait/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0, false
	}
	return max(0, at.Sub(now)), true
}

// isRepeatable reports whether to retry a request that is safe to repeat. With 408 and the statuses of gateways, the
// service has not decided about the request.
func isRepeatable(err error) bool {
	var transport *TransportError
	if errors.As(err, &transport) {
		return transport.Code != FailureInvalidAnswer
	}
	var api *APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// isRateLimited reports whether the service rejected the request before it did anything.
func isRateLimited(err error) bool {
	var api *APIError
	return errors.As(err, &api) && api.StatusCode == http.StatusTooManyRequests
}

// pause returns how long to wait, or false for longer than the policy allows. The jitter is full, so that clients that
// failed together do not retry together.
func (p RetryPolicy) pause(attempt int, err error, random float64) (time.Duration, bool) {
	var api *APIError
	if errors.As(err, &api) && api.waits {
		if api.RetryAfter > p.MaxRetryAfter {
			return 0, false
		}
		return api.RetryAfter + time.Duration(float64(p.Base)*random), true
	}
	backoff := p.Max
	if grown := p.Base << attempt; grown > 0 && grown < p.Max {
		backoff = grown
	}
	return time.Duration(float64(backoff) * random), true
}

// withRetries runs the operation until it succeeds, fails permanently, or has used up its attempts.
func withRetries[T any](
	ctx context.Context, r *core, repeat func(error) bool, operation func(attempt int) (T, error),
) (T, error) {
	for attempt := 0; ; attempt++ {
		result, err := operation(attempt)
		if err == nil || attempt+1 >= r.retry.Attempts || ctx.Err() != nil || !repeat(err) {
			return result, err
		}
		wait, ok := r.retry.pause(attempt, err, r.random())
		if !ok {
			return result, err
		}
		if err := r.sleep(ctx, wait); err != nil {
			return result, err
		}
	}
}
