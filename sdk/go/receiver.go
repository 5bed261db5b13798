package signet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"sync"
	"time"
)

const (
	// defaultMaxBody is 512 KiB: 256 KiB of data, the envelope, and reserve.
	defaultMaxBody  = 524_288
	defaultBodyTime = 10 * time.Second
	// defaultRemember covers the 72 hours of attempts and the week of replays.
	defaultRemember = 10 * 24 * time.Hour
	// gradeType is the type of the events by which the service grades a receiver.
	gradeType = "signet.grade"
	pingType  = "ping"
)

// WebhookEvent is a verified event.
type WebhookEvent struct {
	Payload
	// Type is the type of the event; empty without one.
	Type string
	// FromService says that the service sent the event, not a publishing tenant.
	FromService bool
}

// Data returns the event's data, with numbers as they were published.
func (e *WebhookEvent) Data() json.RawMessage { return e.members["data"] }

// Decode decodes the event's data. In an any, as in the values of a map[string]any, a number is a [json.Number]: a float64
// would change long ones, and could not hold 1e400.
func (e *WebhookEvent) Decode(into any) error { return decodeJSON(e.Data(), into) }

// decodeJSON is json.Unmarshal, but a number that goes into an any is a json.Number.
func decodeJSON(text []byte, into any) error {
	if !json.Valid(text) {
		// With its error.
		return json.Unmarshal(text, into)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// Secrets returns the same secrets for every request. It panics without a secret and for a malformed one, so that a receiver
// without its secret does not start. White space around secrets, such as the newline at the end of a file, is ignored.
func Secrets(secrets ...string) func(context.Context) ([]string, error) {
	read, err := readSecrets(secrets)
	if err != nil {
		panic(err.Error())
	}
	return func(context.Context) ([]string, error) { return read, nil }
}

// ReceiverOptions configures a [Receiver]. Secrets and OnEvent are required.
type ReceiverOptions struct {
	// Secrets returns the endpoint's secrets or public keys for each request. During a rotation they are two.
	Secrets func(context.Context) ([]string, error)
	// OnEvent is called once per event. Store the event here, and do the work afterwards: the service waits 10 seconds. After
	// an error the answer is 500, and the event is sent again. It is not called for pings and grades.
	OnEvent func(context.Context, *WebhookEvent) error
	// Replays remembers ids; a [MemoryReplayStore] by default. Several processes need a shared one.
	Replays ReplayStore
	// Remember is how long ids are remembered; ten days by default.
	Remember time.Duration
	// MaxBody is the maximum size of a body, in bytes; 524,288 by default.
	MaxBody int64
	// BodyTimeout limits the time of the whole body; 10 seconds by default.
	BodyTimeout time.Duration
	// Verify has the limits of verification. Its Now is for tests.
	Verify VerifyOptions
	// OnError receives every refusal and failure. By default, the first of each kind goes to slog, which prints on standard
	// error unless the program configures it.
	OnError func(error)
}

// Receiver is an [http.Handler] that verifies webhooks, drops duplicates, and passes new events on. It answers every request
// itself. Create it with [NewReceiver].
type Receiver struct {
	options ReceiverOptions
	mu      sync.Mutex
	// underWay has the events that are processed now.
	underWay map[string]*processing
	// logged has the kinds of failures that were logged.
	logged map[string]bool
}

type processing struct {
	done chan struct{}
	err  error
}

// NewReceiver creates a receiver. It panics without Secrets or OnEvent, for negative limits and for a HeaderBrand that no
// header can have, because no request could be answered.
func NewReceiver(options ReceiverOptions) *Receiver {
	if options.Secrets == nil || options.OnEvent == nil {
		panic("signet: a receiver needs Secrets and OnEvent")
	}
	for name, limit := range map[string]int64{
		"Remember":         int64(options.Remember),
		"MaxBody":          options.MaxBody,
		"BodyTimeout":      int64(options.BodyTimeout),
		"Verify.Tolerance": int64(options.Verify.Tolerance),
		"Verify.Future":    int64(options.Verify.Future),
	} {
		if limit < 0 {
			panic("signet: " + name + " is negative")
		}
	}
	if brand := options.Verify.HeaderBrand; brand != "" && !brandFormat.MatchString(brand) {
		panic("signet: Verify.HeaderBrand is not a part of a header's name")
	}
	if options.Replays == nil {
		options.Replays = NewMemoryReplayStore(0)
	}
	if options.Remember == 0 {
		options.Remember = defaultRemember
	}
	if options.MaxBody == 0 {
		options.MaxBody = defaultMaxBody
	}
	if options.BodyTimeout == 0 {
		options.BodyTimeout = defaultBodyTime
	}
	return &Receiver{options: options, underWay: map[string]*processing{}, logged: map[string]bool{}}
}

// ServeHTTP answers 200, 400, 401, 405, 408, 413 or 500.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		r.fail(w, http.StatusMethodNotAllowed, errors.New("signet: a webhook is a POST"))
		return
	}
	body, status, err := r.readBody(w, request)
	if err != nil {
		r.fail(w, status, err)
		return
	}
	answer, err := r.Receive(request.Context(), body, request.Header)
	if err != nil {
		r.report(answer.Status, err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Status)
	w.Write(answer.Body)
}

// Answer is what a receiver answers.
type Answer struct {
	// Status is 200, 400, 401 or 500.
	Status int
	// Body is JSON.
	Body []byte
}

// Receive handles one request from raw bytes to an answer, for frameworks without [http.Handler]. There is always an answer.
// The error says why it is not a 200.
func (r *Receiver) Receive(ctx context.Context, body []byte, headers http.Header) (Answer, error) {
	reader := headerReader{headers: headers}
	if len(body) == 0 && reader.read("Content-Length", someLength) != "" {
		return jsonAnswer(http.StatusInternalServerError, failed), errRead
	}
	payload, err := r.verify(ctx, body, headers)
	var rejection *VerificationError
	switch {
	case errors.As(err, &rejection) && (rejection.Code == HeadersMalformed || rejection.Code == PayloadMalformed):
		return jsonAnswer(http.StatusBadRequest, map[string]any{"error": rejection.Code}), err
	case rejection != nil:
		return jsonAnswer(http.StatusUnauthorized, map[string]any{"error": rejection.Code}), err
	case err != nil:
		return jsonAnswer(http.StatusInternalServerError, failed), err
	}
	// OnEvent may return a VerificationError of its own: it is a failure, not the sender's.
	answer, err := r.process(ctx, payload)
	if err != nil {
		return jsonAnswer(http.StatusInternalServerError, failed), err
	}
	return jsonAnswer(http.StatusOK, answer), nil
}

var failed = map[string]any{"error": "FAILED"}

func jsonAnswer(status int, value any) Answer {
	body, _ := json.Marshal(value)
	return Answer{Status: status, Body: body}
}

func (r *Receiver) verify(ctx context.Context, body []byte, headers http.Header) (*Payload, error) {
	secrets, err := r.options.Secrets(ctx)
	if err != nil {
		return nil, &secretsError{err}
	}
	return verifyParsed(body, headers, secrets, r.options.Verify)
}

func (r *Receiver) process(ctx context.Context, payload *Payload) (any, error) {
	event := &WebhookEvent{Payload: *payload}
	event.Type, _ = stringOf(payload.members, "type")
	source, _ := stringOf(payload.members, "source")
	event.FromService = source == "service"
	if event.Type == pingType {
		challenge, _ := stringOf(membersOf(event.Data()), "challenge")
		return map[string]string{"challenge": challenge}, nil
	}
	processed, err := r.once(ctx, event)
	return map[string]bool{"processed": processed}, err
}

// once reports whether the event was new. A retry of an event in progress waits for it: an earlier 200 could lose the event.
func (r *Receiver) once(ctx context.Context, event *WebhookEvent) (bool, error) {
	if event.ID == "" {
		return true, r.handle(ctx, event)
	}
	r.mu.Lock()
	if other := r.underWay[event.ID]; other != nil {
		r.mu.Unlock()
		select {
		case <-other.done:
			return false, other.err
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	own := &processing{done: make(chan struct{}), err: errors.New("signet: OnEvent has panicked")}
	r.underWay[event.ID] = own
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.underWay, event.ID)
		r.mu.Unlock()
		close(own.done)
	}()
	processed, err := r.take(ctx, event)
	own.err = err
	return processed, err
}

func (r *Receiver) take(ctx context.Context, event *WebhookEvent) (processed bool, err error) {
	known, err := r.options.Replays.Seen(ctx, event.ID, time.Now().Add(r.options.Remember))
	if err != nil || known {
		return false, err
	}
	completed := false
	defer func() {
		if !completed {
			// Also if the sender has gone meanwhile, or OnEvent panics.
			forgotten := r.options.Replays.Forget(context.WithoutCancel(ctx), event.ID)
			err = errors.Join(err, forgotten)
		}
	}()
	if err := r.handle(ctx, event); err != nil {
		return false, err
	}
	completed = true
	return true, nil
}

func (r *Receiver) handle(ctx context.Context, event *WebhookEvent) error {
	if event.Type == gradeType && event.FromService {
		return nil
	}
	return r.options.OnEvent(ctx, event)
}

// secretsError does not unwrap: its cause could pass for the sender's fault.
type secretsError struct{ cause error }

func (e *secretsError) Error() string {
	return fmt.Sprintf("signet: the secrets cannot be read: %v", e.cause)
}

// readError is a mistake of the program.
type readError struct{}

func (*readError) Error() string {
	return "signet: the body was read before this receiver, and its bytes are lost: mount the receiver before what reads it, or put a new reader of the bytes into request.Body"
}

var errRead error = &readError{}

var (
	brandFormat = regexp.MustCompile(`^[A-Za-z0-9-]+$`)
	// someLength is a Content-Length of more than nothing.
	someLength = regexp.MustCompile(`^0*[1-9][0-9]*$`)
)

// readBody returns the body, or the status of the failure.
func (r *Receiver) readBody(w http.ResponseWriter, request *http.Request) ([]byte, int, error) {
	if request.Body == nil {
		// Requests of net/http have a body, those that adapters build may have none.
		request.Body = http.NoBody
	}
	// Not every ResponseWriter can: then the server's ReadTimeout is the limit. net/http ends the deadline with the body.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(r.options.BodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, r.options.MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil && int64(len(body)) < request.ContentLength, errors.Is(err, http.ErrBodyReadAfterClose):
		return nil, http.StatusInternalServerError, errRead
	case err == nil:
		return body, 0, nil
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, http.StatusRequestTimeout, err
	default:
		return nil, http.StatusBadRequest, err
	}
}

// fail answers without a body and closes the connection, because the rest of the request is not read.
func (r *Receiver) fail(w http.ResponseWriter, status int, err error) {
	r.report(status, err)
	w.Header().Set("Connection", "close")
	w.WriteHeader(status)
}

// report passes on a refusal or failure. Where the program does not listen, it logs the first of each kind: a receiver that
// answers 500 in silence would cost days.
func (r *Receiver) report(status int, err error) {
	if r.options.OnError != nil {
		r.options.OnError(err)
		return
	}
	kind := fmt.Sprintf("%d %T", status, err)
	var rejection *VerificationError
	if errors.As(err, &rejection) {
		kind = fmt.Sprintf("%d %s", status, rejection.Code)
	} else if joined, ok := err.(interface{ Unwrap() []error }); ok {
		// Of OnEvent, with the result of Forget.
		kind = fmt.Sprintf("%d %T", status, joined.Unwrap()[0])
	}
	r.mu.Lock()
	known := r.logged[kind]
	r.logged[kind] = true
	r.mu.Unlock()
	if known {
		return
	}
	const more = "others of this kind are not logged: set OnError to see each"
	if status >= http.StatusInternalServerError {
		slog.Error("signet: a webhook failed in this receiver", "status", status, "error", err, "note", more)
	} else {
		slog.Warn("signet: a webhook was refused", "status", status, "error", err, "note", more)
	}
}
