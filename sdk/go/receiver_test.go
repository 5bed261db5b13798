package signet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
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
