package signet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const testSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

func signedBody(id, eventType, more string) []byte {
	return []byte(fmt.Sprintf(`{"id":%q,"type":%q,"sent_at":%d%s}`, id, eventType, time.Now().Unix(), more))
}

// send posts a signed body and returns the status and the body of the answer.
func send(t *testing.T, address, id string, body []byte) (int, string) {
	t.Helper()
	headers, err := Sign(testSecret, id, time.Now(), body)
	if err != nil {
		t.Fatal(err)
	}
	request, _ := http.NewRequest(http.MethodPost, address, bytes.NewReader(body))
	request.Header = headers
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

func serve(t *testing.T, options ReceiverOptions) string {
	t.Helper()
	if options.Secrets == nil {
		options.Secrets = Secrets(testSecret)
	}
	server := httptest.NewUnstartedServer(NewReceiver(options))
	// A panic of OnEvent is expected.
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

func expect(t *testing.T, status int, body string, wantedStatus int, wantedBody string) {
	t.Helper()
	if status != wantedStatus || body != wantedBody {
		t.Errorf("%d %s, not %d %s", status, body, wantedStatus, wantedBody)
	}
}

func TestReceiverPassesNewEventsOnce(t *testing.T) {
	var events []*WebhookEvent
	address := serve(t, ReceiverOptions{OnEvent: func(_ context.Context, event *WebhookEvent) error {
		events = append(events, event)
		return nil
	}})
	body := signedBody("evt_1", "a.b", `,"source":"service","data":{"amount":1.0}`)
	for _, processed := range []string{`{"processed":true}`, `{"processed":false}`} {
		status, answer := send(t, address, "evt_1", body)
		expect(t, status, answer, 200, processed)
	}
	if len(events) != 1 {
		t.Fatalf("%d events", len(events))
	}
	event := events[0]
	if event.ID != "evt_1" || event.Type != "a.b" || !event.FromService || event.Scheme != SchemeV1 ||
		!bytes.Equal(event.Body, body) || string(event.Data()) != `{"amount":1.0}` {
		t.Errorf("%+v", event)
	}
	var data struct{ Amount json.Number }
	if event.Decode(&data) != nil || data.Amount != "1.0" {
		t.Errorf("%+v", data)
	}
}

func TestReceiverAnswersPingsAndGradesItself(t *testing.T) {
	address := serve(t, ReceiverOptions{OnEvent: func(context.Context, *WebhookEvent) error {
		return errors.New("not for the program")
	}})
	status, answer := send(t, address, "evt_1", signedBody("evt_1", "ping", `,"data":{"challenge":"c1"}`))
	expect(t, status, answer, 200, `{"challenge":"c1"}`)
	status, answer = send(t, address, "evt_2", signedBody("evt_2", "signet.grade", `,"source":"service"`))
	expect(t, status, answer, 200, `{"processed":true}`)
	status, _ = send(t, address, "evt_3", signedBody("evt_3", "signet.grade", ""))
	expect(t, status, "", 500, "")
}

func TestReceiverRejects(t *testing.T) {
	var reported atomic.Int32
	address := serve(t, ReceiverOptions{
		OnEvent: func(context.Context, *WebhookEvent) error { return nil },
		OnError: func(error) { reported.Add(1) },
		MaxBody: 100,
	})
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, response.StatusCode, response.Header.Get("Allow"), 405, "POST")
	status, answer := send(t, address, "evt_1", signedBody("evt_1", "a.b", `,"data":"`+strings.Repeat("x", 100)+`"`))
	expect(t, status, answer, 413, "")
	body := signedBody("evt_2", "a.b", "")
	status, answer = send(t, address, "evt_1", body)
	expect(t, status, answer, 200, `{"processed":true}`)
	response, err = http.Post(address, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	expect(t, response.StatusCode, string(text), 400, `{"error":"HEADERS_MALFORMED"}`)
	headers, _ := Sign(testSecret, "evt_2", time.Now(), append(body, ' '))
	request, _ := http.NewRequest(http.MethodPost, address, bytes.NewReader(body))
	request.Header = headers
	if response, err = http.DefaultClient.Do(request); err != nil {
		t.Fatal(err)
	}
	text, _ = io.ReadAll(response.Body)
	expect(t, response.StatusCode, string(text), 401, `{"error":"SIGNATURE_INVALID"}`)
	if reported.Load() != 4 {
		t.Errorf("%d reports", reported.Load())
	}
}

func TestReceiverTakesAnEventAgainAfterItsFailure(t *testing.T) {
	calls := 0
	address := serve(t, ReceiverOptions{OnEvent: func(context.Context, *WebhookEvent) error {
		calls++
		switch calls {
		case 1:
			return errors.New("the disk is full")
		case 2:
			panic("a mistake of the program")
		}
		return nil
	}})
	body := signedBody("evt_1", "a.b", "")
	status, answer := send(t, address, "evt_1", body)
	expect(t, status, answer, 500, `{"error":"FAILED"}`)
	headers, _ := Sign(testSecret, "evt_1", time.Now(), body)
	request, _ := http.NewRequest(http.MethodPost, address, bytes.NewReader(body))
	request.Header = headers
	if _, err := http.DefaultClient.Do(request); err == nil {
		t.Error("net/http ends the connection after a panic")
	}
	status, answer = send(t, address, "evt_1", body)
	expect(t, status, answer, 200, `{"processed":true}`)
}

// watchedContext says when somebody waits for its end.
type watchedContext struct {
	context.Context
	waits chan struct{}
}

func (c watchedContext) Done() <-chan struct{} {
	close(c.waits)
	return c.Context.Done()
}

func TestReceiverLetsARetryWaitForTheEventInProgress(t *testing.T) {
	begun, release := make(chan struct{}), make(chan error)
	receiver := NewReceiver(ReceiverOptions{
		Secrets: Secrets(testSecret),
		OnEvent: func(context.Context, *WebhookEvent) error {
			close(begun)
			return <-release
		},
	})
	body := signedBody("evt_1", "a.b", "")
	headers, _ := Sign(testSecret, "evt_1", time.Now(), body)
	answers := make(chan Answer)
	receive := func(ctx context.Context) {
		answer, _ := receiver.Receive(ctx, body, headers)
		answers <- answer
	}
	go receive(context.Background())
	<-begun
	retry := watchedContext{context.Background(), make(chan struct{})}
	go receive(retry)
	<-retry.waits
	release <- errors.New("the disk is full")
	for range 2 {
		answer := <-answers
		expect(t, answer.Status, string(answer.Body), 500, `{"error":"FAILED"}`)
	}
}

func TestReceiverEndsASlowBody(t *testing.T) {
	address := serve(t, ReceiverOptions{
		OnEvent:     func(context.Context, *WebhookEvent) error { return nil },
		BodyTimeout: 50 * time.Millisecond,
	})
	connection, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprint(connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
	_ = connection.SetReadDeadline(time.Now().Add(10 * time.Second))
	answer, err := io.ReadAll(connection)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("%v %s", err, answer)
	}
}

func TestReceiverKeepsTheContextWhileAnEventIsProcessed(t *testing.T) {
	address := serve(t, ReceiverOptions{
		OnEvent: func(ctx context.Context, _ *WebhookEvent) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(200 * time.Millisecond):
				return nil
			}
		},
		BodyTimeout: 50 * time.Millisecond,
	})
	status, answer := send(t, address, "evt_1", signedBody("evt_1", "a.b", ""))
	expect(t, status, answer, 200, `{"processed":true}`)
}

func TestMemoryReplayStoreForgetsTheOldest(t *testing.T) {
	ctx, later := context.Background(), time.Now().Add(time.Hour)
	store := NewMemoryReplayStore(2)
	seen := func(id string, until time.Time) bool {
		known, err := store.Seen(ctx, id, until)
		return known || err != nil
	}
	if seen("a", later) || seen("b", later) || !seen("a", later) || seen("c", later) || seen("a", later) {
		t.Error("a must be dropped for c")
	}
	if store.Forget(ctx, "c") != nil || seen("c", time.Now()) || seen("c", later) {
		t.Error("c must be forgotten, and then expire")
	}
}

func TestNumbersOfAnyLengthReachTheHandler(t *testing.T) {
	for _, number := range []string{
		strings.Repeat("7", 4_301), "-" + strings.Repeat("7", 100_000), "1e400", "1e-999999", "9007199254740993",
	} {
		var decoded struct{ N json.Number }
		var open map[string]any
		address := serve(t, ReceiverOptions{OnEvent: func(_ context.Context, event *WebhookEvent) error {
			return errors.Join(event.Decode(&decoded), event.Decode(&open))
		}})
		body := signedBody("evt_1", "a.b", `,"data":{"n":`+number+`}`)
		status, answer := send(t, address, "evt_1", body)
		expect(t, status, answer, 200, `{"processed":true}`)
		if decoded.N.String() != number || open["n"] != json.Number(number) {
			t.Errorf("%.20s became %.20s and %.20v", number, decoded.N, open["n"])
		}
	}
}

func TestAPayloadThatWasNotParsedReachesNobody(t *testing.T) {
	address := serve(t, ReceiverOptions{OnEvent: func(context.Context, *WebhookEvent) error {
		t.Error("OnEvent was called")
		return nil
	}})
	for _, text := range []string{"{", "", "\xff\xfe{", `{"n":NaN}`} {
		status, answer := send(t, address, "evt_1", []byte(text))
		expect(t, status, answer, 400, `{"error":"PAYLOAD_MALFORMED"}`)
	}
	var into any
	if (&WebhookEvent{}).Decode(&into) == nil {
		t.Error("an event without data was decoded")
	}
}

func panicOf(run func()) (message string) {
	defer func() { message = fmt.Sprint(recover()) }()
	run()
	return ""
}

func TestReceiverWithoutAGoodSecretDoesNotStart(t *testing.T) {
	body := signedBody("evt_1", "a.b", "")
	headers, _ := Sign(testSecret, "evt_1", time.Now(), body)
	for _, wrong := range []struct {
		secrets []string
		message string
	}{
		{nil, "secrets is empty"},
		{[]string{""}, "secrets[0] is empty"},
		{[]string{testSecret, " \n"}, "secrets[1] is empty"},
		{[]string{"oops"}, "secrets[0] begins neither"},
		{[]string{strings.TrimPrefix(testSecret, "whsec_")}, "secrets[0] begins neither"},
		{[]string{"whsec_AAAA"}, "secrets[0] is malformed"},
		{[]string{testSecret[:20] + " " + testSecret[20:]}, "secrets[0] is malformed"},
		{[]string{"whpk_AAAA"}, "secrets[0] is malformed"},
	} {
		message := panicOf(func() { Secrets(wrong.secrets...) })
		if !strings.Contains(message, wrong.message) || strings.Contains(message, testSecret[6:20]) {
			t.Errorf("%q, not %q", message, wrong.message)
		}
		_, err := Verify(body, headers, wrong.secrets, VerifyOptions{})
		if !errors.Is(err, ErrSecret) || !strings.Contains(err.Error(), wrong.message) {
			t.Errorf("%v, not %q", err, wrong.message)
		}
	}
	onEvent := func(context.Context, *WebhookEvent) error { return nil }
	for _, options := range []ReceiverOptions{
		{OnEvent: onEvent},
		{Secrets: Secrets(testSecret)},
		{Secrets: Secrets(testSecret), OnEvent: onEvent, MaxBody: -1},
		{Secrets: Secrets(testSecret), OnEvent: onEvent, Verify: VerifyOptions{Tolerance: -1}},
		{Secrets: Secrets(testSecret), OnEvent: onEvent, Verify: VerifyOptions{HeaderBrand: "Acme "}},
	} {
		if message := panicOf(func() { NewReceiver(options) }); !strings.HasPrefix(message, "signet: ") {
			t.Errorf("%+v: %q", options, message)
		}
	}
}

func TestReceiverIgnoresWhiteSpaceAroundSecrets(t *testing.T) {
	for _, secret := range []string{testSecret + "\n", "\ufeff" + testSecret + "\r\n", "\t" + testSecret + " "} {
		address := serve(t, ReceiverOptions{
			Secrets: Secrets(secret),
			OnEvent: func(context.Context, *WebhookEvent) error { return nil },
		})
		status, answer := send(t, address, "evt_1", signedBody("evt_1", "a.b", ""))
		expect(t, status, answer, 200, `{"processed":true}`)
	}
}

// logged returns what a function writes with slog.
func logged(run func()) string {
	var text bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	defer slog.SetDefault(before)
	run()
	return text.String()
}

func TestReceiverLogsTheFirstOfEachKindWhereNobodyListens(t *testing.T) {
	receiver := NewReceiver(ReceiverOptions{
		Secrets: Secrets(testSecret),
		OnEvent: func(context.Context, *WebhookEvent) error { return errors.New("the disk is full") },
	})
	body := signedBody("evt_1", "a.b", "")
	headers, _ := Sign(testSecret, "evt_1", time.Now(), body)
	text := logged(func() {
		for range 2 {
			for _, given := range []http.Header{headers, {}} {
				request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
				request.Header = given
				receiver.ServeHTTP(httptest.NewRecorder(), request)
			}
		}
	})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=ERROR") || !strings.Contains(lines[0], "the disk is full") ||
		!strings.Contains(lines[1], "level=WARN") || !strings.Contains(lines[1], "HEADERS_MALFORMED") {
		t.Error(text)
	}
}

func TestReceiverLogsEachClassOfFailure(t *testing.T) {
	// In order; each comes twice.
	failures := []error{errors.New("the disk is full"), io.ErrClosedPipe, context.DeadlineExceeded, &fs.PathError{Err: io.EOF}}
	at := 0
	broken := false
	receiver := NewReceiver(ReceiverOptions{
		Secrets: func(context.Context) ([]string, error) {
			if broken {
				return nil, errors.New("the vault is sealed")
			}
			return []string{testSecret}, nil
		},
		OnEvent: func(context.Context, *WebhookEvent) error { return failures[at] },
	})
	body := signedBody("evt_1", "a.b", "")
	headers, _ := Sign(testSecret, "evt_1", time.Now(), body)
	answer := func(body []byte) {
		for range 2 {
			request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
			request.Header = headers
			receiver.ServeHTTP(httptest.NewRecorder(), request)
		}
	}
	text := logged(func() {
		for at = range failures {
			answer(body)
		}
		at, broken = 0, true
		answer(body)
		headers.Set("Content-Length", strconv.Itoa(len(body)))
		answer(nil)
	})
	// io.ErrClosedPipe is of the same type as the first.
	for _, part := range []string{"disk is full", "deadline exceeded", "EOF", "vault is sealed", "body was read before"} {
		if strings.Count(text, part) != 1 {
			t.Errorf("%q is logged %d times:\n%s", part, strings.Count(text, part), text)
		}
	}
}

func TestReceiveTellsAnEmptiedBodyFromAForgery(t *testing.T) {
	receiver := NewReceiver(ReceiverOptions{
		Secrets: Secrets(testSecret),
		OnEvent: func(context.Context, *WebhookEvent) error { return nil },
	})
	headers, _ := Sign(testSecret, "evt_1", time.Now(), signedBody("evt_1", "a.b", ""))
	for length, status := range map[string]int{"120": 500, "0": 401, "": 401} {
		// As gateways pass names.
		headers["content-length"] = []string{length}
		answer, err := receiver.Receive(context.Background(), nil, headers)
		if answer.Status != status || errors.Is(err, errRead) != (status == 500) {
			t.Errorf("%q: %d %v", length, answer.Status, err)
		}
	}
}

func TestReceiverTellsItsOwnMistakesFromTheSenders(t *testing.T) {
	own := &VerificationError{Code: SignatureInvalid}
	noError := func(context.Context, *WebhookEvent) error { return nil }
	readBefore := func(before func(*http.Request)) func(*Receiver) http.Handler {
		return func(receiver *Receiver) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				before(request)
				receiver.ServeHTTP(w, request)
			})
		}
	}
	asItIs := func(receiver *Receiver) http.Handler { return receiver }
	for name, mistake := range map[string]struct {
		options ReceiverOptions
		handler func(*Receiver) http.Handler
		status  int
	}{
		"OnEvent returns a rejection of its own": {
			ReceiverOptions{OnEvent: func(context.Context, *WebhookEvent) error { return own }}, asItIs, 500,
		},
		"the secrets cannot be read": {
			ReceiverOptions{OnEvent: noError, Secrets: func(context.Context) ([]string, error) { return nil, own }}, asItIs, 500,
		},
		"there are no secrets": {
			ReceiverOptions{OnEvent: noError, Secrets: func(context.Context) ([]string, error) { return nil, nil }}, asItIs, 500,
		},
		"the body was read": {
			ReceiverOptions{OnEvent: noError}, readBefore(func(r *http.Request) { _, _ = io.ReadAll(r.Body) }), 500,
		},
		"a part of the body was read": {
			ReceiverOptions{OnEvent: noError}, readBefore(func(r *http.Request) { _, _ = r.Body.Read(make([]byte, 9)) }), 500,
		},
		"the body was closed": {
			ReceiverOptions{OnEvent: noError}, readBefore(func(r *http.Request) { _ = r.Body.Close() }), 500,
		},
		"the body was read and put back": {
			ReceiverOptions{OnEvent: noError}, readBefore(func(r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(raw))
			}), 200,
		},
	} {
		var reported []error
		mistake.options.OnError = func(err error) { reported = append(reported, err) }
		if mistake.options.Secrets == nil {
			mistake.options.Secrets = Secrets(testSecret)
		}
		server := httptest.NewServer(mistake.handler(NewReceiver(mistake.options)))
		status, answer := send(t, server.URL, "evt_1", signedBody("evt_1", "a.b", ""))
		server.Close()
		if status != mistake.status || len(reported) != map[int]int{200: 0, 500: 1}[status] {
			t.Errorf("%s: %d %s %v", name, status, answer, reported)
		}
	}
}

func TestReceiverAnswersRequestsWithoutABody(t *testing.T) {
	receiver := NewReceiver(ReceiverOptions{
		Secrets: Secrets(testSecret),
		OnEvent: func(context.Context, *WebhookEvent) error { return nil },
		OnError: func(error) {},
	})
	recorder := httptest.NewRecorder()
	receiver.ServeHTTP(recorder, &http.Request{Method: http.MethodPost})
	expect(t, recorder.Code, recorder.Body.String(), 400, `{"error":"HEADERS_MALFORMED"}`)
}
