package signet

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// FieldError is one invalid member of a request.
type FieldError struct {
	// Pointer is a JSON pointer into the body. For a query parameter or a header, it is "/" and the name.
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	// Detail says what is expected and what was sent.
	Detail string `json:"detail"`
}

// APIError says that the service rejected a request. It never contains a secret or a token.
type APIError struct {
	// StatusCode is the HTTP status.
	StatusCode int
	// Code is stable, for instance [CodeScopeViolation]. It is HTTP_ and the status if the answer names none.
	Code ErrorCode
	// Title and Detail are for humans and may change.
	Title, Detail string
	// RequestID identifies the request for support. It is empty if the answer did not come from the service.
	RequestID string
	// Fields lists every invalid member of the request.
	Fields []FieldError
	// MissingPermission is the scope that the token lacks, for [CodeScopeViolation].
	MissingPermission string
	// RetryAfter is the requested wait; zero without one.
	RetryAfter time.Duration
	// Problem is the whole problem document (RFC 9457), or the error of an OAuth endpoint (RFC 6749).
	Problem json.RawMessage

	waits bool
}

// Error returns the code, the detail and the id of the request.
func (e *APIError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "signet: %s: %s", e.Code, first(e.Detail, e.Title, fmt.Sprintf("HTTP %d", e.StatusCode)))
	for _, field := range e.Fields {
		fmt.Fprintf(&text, "; %s %s", field.Pointer, field.Detail)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&text, " (request %s)", e.RequestID)
	}
	return text.String()
}

// problem has the members of RFC 9457 and of RFC 6749 section 5.2.
type problem struct {
	Code              string       `json:"code"`
	Title             string       `json:"title"`
	Detail            string       `json:"detail"`
	RequestID         string       `json:"request_id"`
	Errors            []FieldError `json:"errors"`
	MissingPermission string       `json:"missing_permission"`
	OAuthError        string       `json:"error"`
	OAuthDescription  string       `json:"error_description"`
	Status            int          `json:"status"`
}

// problemError reads a problem document. Bodies in another form, such as a proxy's page, give an error without details.
func problemError(status int, body []byte) *APIError {
	var found problem
	if json.Unmarshal(body, &found) != nil {
		found, body = problem{}, nil
	}
	return &APIError{
		StatusCode: status,
		Code: ErrorCode(
			first(found.Code, strings.ToUpper(found.OAuthError), fmt.Sprintf("HTTP_%d", status)),
		),
		Title:             found.Title,
		Detail:            first(found.Detail, found.OAuthDescription),
		RequestID:         found.RequestID,
		Fields:            found.Errors,
		MissingPermission: found.MissingPermission,
		Problem:           body,
	}
}

// TransportFailure says why there is no usable answer.
type TransportFailure string

const (
	// FailureConnection means that the service cannot be reached, or that the connection broke.
	FailureConnection TransportFailure = "CONNECTION"
	// FailureTimeout means that the service has not answered in time.
	FailureTimeout TransportFailure = "TIMEOUT"
	// FailureInvalidAnswer means that the answer is not the service's.
	FailureInvalidAnswer TransportFailure = "INVALID_ANSWER"
)

// TransportError says that there is no usable answer. The request may or may not have been executed.
type TransportError struct {
	Code   TransportFailure
	Detail string
	// Err is the cause; nil without one.
	Err error
}

// Error returns the code and the detail.
func (e *TransportError) Error() string { return fmt.Sprintf("signet: %s: %s", e.Code, e.Detail) }

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.Err }

// CredentialError says that there is no credential, or that it cannot be read.
type CredentialError struct {
	Detail string
	Err    error
}

// Error returns the detail.
func (e *CredentialError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("signet: %s: %v", e.Detail, e.Err)
	}
	return "signet: " + e.Detail
}

// Unwrap returns the cause.
func (e *CredentialError) Unwrap() error { return e.Err }

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
