package signet

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	// A renewal starts at a random point between these parts of a token's life, so that clients spread out.
	refreshFrom, refreshSpread = 0.7, 0.15
	// A token this close to its expiry is not used: it could expire in transit.
	endMargin     = 30 * time.Second
	endMarginPart = 0.1
	// refreshAgain is the pause after a failed renewal. The current token is valid meanwhile.
	refreshAgain = 10 * time.Second
	// The pause after a rejected credential doubles up to the maximum, since the service counts failures.
	refusalHold, refusalHoldMax = 5 * time.Second, 5 * time.Minute

	jwtBearer = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

// tokenFormat is that of RFC 6750 section 2.1. Another value would cause an error that shows it.
var tokenFormat = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// AccessToken is a token for calls outside this package.
type AccessToken struct {
	Value string
	// Scope has the granted scopes, separated by spaces.
	Scope string
	// ExpiresAt is by this machine's clock.
	ExpiresAt time.Time
}

// String keeps the token out of logs.
func (AccessToken) String() string { return "[token]" }

// GoString keeps the token out of logs.
func (AccessToken) GoString() string { return "[token]" }

// tokenSource requests tokens once for all callers, and renews them before they expire.
type tokenSource struct {
	core   *core
	keeper *credentialKeeper
	url    string
	// scope is empty for all scopes of the principal.
	scope  string
	assert func(ctx context.Context, audience string) (string, error)

	mu     sync.Mutex
	held   *heldToken
	flight *tokenFlight

	// Only the one flight uses what follows.
	refusal     error
	holdFor     time.Duration
	refuseUntil time.Time
}

type heldToken struct {
	token                  AccessToken
	usableUntil, refreshAt time.Time
}

// tokenFlight is a request that callers share. The end of a caller's context does not end it.
type tokenFlight struct {
	done  chan struct{}
	token AccessToken
	err   error
}

// token returns a valid token. Only the first caller, and callers with an expired token, wait.
func (s *tokenSource) token(ctx context.Context) (AccessToken, error) {
	s.mu.Lock()
	now := s.core.now()
	if held := s.held; held != nil && now.Before(held.usableUntil) {
		if !now.Before(held.refreshAt) && s.flight == nil {
			held.refreshAt = now.Add(refreshAgain)
			flight := s.renew()
			go func() {
				if <-flight.done; flight.err != nil {
					s.core.warn(Warning{"REFRESH_FAILED", "the token could not be renewed yet", flight.err})
				}
			}()
		}
		s.mu.Unlock()
		return held.token, nil
	}
	flight := s.renew()
	s.mu.Unlock()
	select {
	case <-flight.done:
		return flight.token, flight.err
	case <-ctx.Done():
		return AccessToken{}, ended(ctx)
	}
}

// tokenInsteadOf returns a token other than the rejected one. Concurrent callers share the renewal.
func (s *tokenSource) tokenInsteadOf(ctx context.Context, rejected string) (AccessToken, error) {
	s.mu.Lock()
	if s.held != nil && s.held.token.Value == rejected {
		s.held = nil
	}
	s.mu.Unlock()
	return s.token(ctx)
}

// renew joins the flight or starts one. The caller holds the lock.
func (s *tokenSource) renew() *tokenFlight {
	if s.flight == nil {
		flight := &tokenFlight{done: make(chan struct{})}
		s.flight = flight
		go func() {
			held, err := s.fly(context.Background())
			s.mu.Lock()
			s.flight = nil
			if err == nil {
				s.held, flight.token = held, held.token
			}
			flight.err = err
			s.mu.Unlock()
			close(flight.done)
		}()
	}
	return s.flight
}

// fly presents one secret after the other until one is accepted.
func (s *tokenSource) fly(ctx context.Context) (*heldToken, error) {
	if s.refusal != nil && s.core.now().Before(s.refuseUntil) {
		return nil, s.refusal
	}
	candidates, err := s.keeper.candidates(ctx)
	if err != nil {
		return nil, err
	}
	for _, candidate := range candidates {
		answer, askedAt, requestErr := s.request(ctx, candidate)
		if requestErr == nil {
			s.keeper.accepted(ctx, candidate, answer.successor())
			s.refusal = nil
			return s.hold(answer, askedAt), nil
		}
		var api *APIError
		if !errors.As(requestErr, &api) || api.Code != CodeInvalidClient {
			return nil, requestErr
		}
		s.keeper.rejected(candidate)
		err = requestErr
	}
	if s.refusal == nil {
		s.holdFor = refusalHold
	} else {
		s.holdFor = min(2*s.holdFor, refusalHoldMax)
	}
	s.refusal, s.refuseUntil = err, s.core.now().Add(s.holdFor)
	return nil, err
}

// hold counts the expiry from before the request, so that transit time is included.
func (s *tokenSource) hold(answer *tokenAnswer, askedAt time.Time) *heldToken {
	lifetime := time.Duration(answer.ExpiresIn * float64(time.Second))
	part := func(share float64) time.Duration { return time.Duration(float64(lifetime) * share) }
	expiresAt := askedAt.Add(lifetime)
	return &heldToken{
		token:       AccessToken{answer.AccessToken, answer.Scope, expiresAt},
		usableUntil: expiresAt.Add(-min(endMargin, part(endMarginPart))),
		refreshAt:   askedAt.Add(part(refreshFrom + refreshSpread*s.core.random())),
	}
}

// tokenAnswer is the answer of the token endpoint.
type tokenAnswer struct {
	AccessToken string      `json:"access_token"`
	ExpiresIn   float64     `json:"expires_in"`
	Scope       string      `json:"scope"`
	Rotation    *secretJSON `json:"credential_rotation"`
}

// successor returns the next secret, if a rotation is due.
func (a *tokenAnswer) successor() *StoredSecret {
	if next := a.Rotation.stored(); next != nil && next.Version > 0 {
		return next
	}
	return nil
}

func (s *tokenSource) request(ctx context.Context, secret clientSecret) (*tokenAnswer, time.Time, error) {
	var askedAt time.Time
	answer, err := withRetries(ctx, s.core, isRepeatable, func(int) (*tokenAnswer, error) {
		askedAt = s.core.now()
		return s.ask(ctx, secret)
	})
	return answer, askedAt, err
}

// ask sends one token request (RFC 6749 section 4.4). The secret goes into HTTP Basic. Without one, the assertion or else
// the client certificate authenticates (RFC 7523, RFC 8705).
func (s *tokenSource) ask(ctx context.Context, secret clientSecret) (*tokenAnswer, error) {
	body := map[string]string{"grant_type": "client_credentials"}
	header := http.Header{"Content-Type": {"application/json"}}
	confidential := []string{secret.secret}
	if s.scope != "" {
		body["scope"] = s.scope
	}
	switch {
	case secret.secret != "":
		basic := basicAuthorization(secret.clientID, secret.secret)
		header.Set("Authorization", basic)
		confidential = append(confidential, strings.TrimPrefix(basic, "Basic "))
	case s.assert != nil:
		// A new one each time: the service accepts an assertion once.
		assertion, err := s.assert(ctx, s.url)
		if err != nil {
			return nil, &CredentialError{"the client assertion cannot be made", err}
		}
		body["client_id"], body["client_assertion_type"], body["client_assertion"] = secret.clientID, jwtBearer, assertion
		confidential = append(confidential, assertion)
	default:
		body["client_id"] = secret.clientID
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	received, err := s.core.perform(ctx, exchange{
		method: http.MethodPost, url: s.url, header: header, body: text, confidential: confidential,
	})
	if err != nil {
		return nil, err
	}
	var answer tokenAnswer
	if json.Unmarshal(received, &answer) != nil || !tokenFormat.MatchString(answer.AccessToken) {
		return nil, invalidAnswer("the token endpoint's answer holds no token")
	}
	if !(answer.ExpiresIn > 0) {
		return nil, invalidAnswer("the token endpoint does not say how long its token lasts")
	}
	return &answer, nil
}
