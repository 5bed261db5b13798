package signet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// service is a scripted service on a real socket. It rotates the secret of its one client when a test asks for it.
type service struct {
	*httptest.Server
	mu sync.Mutex
	// requests has what arrived, without token requests.
	requests []seen
	// answers are for the next requests that are not for tokens; then each gets an empty list.
	answers []http.HandlerFunc
	// tokens counts token requests, and presented has their secrets.
	tokens    int
	presented []string
	// valid has the secrets that authenticate, and due those whose answer has a successor.
	valid, due map[string]bool
	lifetime   int
	// tokenAnswers replaces the answers to the next token requests.
	tokenAnswers []http.HandlerFunc
}

type seen struct {
	method, path, authorization, key, body string
}

func secretOf(version int) string { return fmt.Sprintf("sgn_live_sk_canary%031d", version) }

// startService starts the service. Version 1 is the current secret.
func startService(t *testing.T) *service {
	t.Helper()
	s := &service{valid: map[string]bool{secretOf(1): true}, due: map[string]bool{}, lifetime: 900}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/v1/auth/token" {
		s.tokens++
		_, secret, _ := r.BasicAuth()
		s.presented = append(s.presented, secret)
		if len(s.tokenAnswers) > 0 {
			answer := s.tokenAnswers[0]
			s.tokenAnswers = s.tokenAnswers[1:]
			answer(w, r)
			return
		}
		s.answerToken(w, secret)
		return
	}
	s.requests = append(s.requests, seen{
		r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), r.Header.Get("Idempotency-Key"), string(body),
	})
	if len(s.answers) > 0 {
		answer := s.answers[0]
		s.answers = s.answers[1:]
		answer(w, r)
		return
	}
	answerJSON(200, `{"data":[],"next_cursor":null}`)(w, r)
}

func (s *service) answerToken(w http.ResponseWriter, secret string) {
	if !s.valid[secret] {
		answerJSON(401, `{"error":"invalid_client","error_description":"no","code":"INVALID_CLIENT"}`)(w, nil)
		return
	}
	rotation := ""
	if s.due[secret] {
		var version int
		fmt.Sscanf(strings.TrimPrefix(secret, "sgn_live_sk_canary"), "%d", &version)
		next := secretOf(version + 1)
		s.valid[next] = true
		rotation = fmt.Sprintf(`,"credential_rotation":{"version":%d,"client_secret":%q}`, version+1, next)
	}
	answerJSON(200, fmt.Sprintf(
		`{"access_token":"token-%d","token_type":"Bearer","expires_in":%d,"scope":"a:b"%s}`, s.tokens, s.lifetime, rotation,
	))(w, nil)
}

func answerJSON(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, header := range headers {
			name, value, _ := strings.Cut(header, ": ")
			w.Header().Set(name, value)
		}
		w.Header().Set("X-Request-Id", "req_header")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// lost ends the connection without an answer.
func lost(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func rejection(code string) string { return fmt.Sprintf(`{"code":%q,"title":"t","detail":"d"}`, code) }

// clock and pauses replace time in a client.
type testTime struct {
	mu     sync.Mutex
	now    time.Time
	pauses []time.Duration
	// warnings arrive here as well.
	warnings []string
}

func (c *testTime) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *testTime) codes() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.warnings, " ")
}

// connect makes a client whose jitter is half, and which never really waits.
func connect(t *testing.T, s *service, change func(*Options)) (*Client, *testTime) {
	t.Helper()
	clock := &testTime{now: time.Now()}
	options := Options{BaseURL: s.URL, ClientID: "cl_1", ClientSecret: secretOf(1)}
	options.Warn = func(warning Warning) {
		clock.mu.Lock()
		defer clock.mu.Unlock()
		clock.warnings = append(clock.warnings, warning.Code)
	}
	options.core = core{
		now: func() time.Time {
			clock.mu.Lock()
			defer clock.mu.Unlock()
			return clock.now
		},
		random: func() float64 { return 0.5 },
		sleep: func(ctx context.Context, d time.Duration) error {
			clock.mu.Lock()
			defer clock.mu.Unlock()
			clock.pauses = append(clock.pauses, d)
			clock.now = clock.now.Add(d)
			return ctx.Err()
		},
	}
	if change != nil {
		change(&options)
	}
	client, err := NewClient(options)
	if err != nil {
		t.Fatal(err)
	}
	return client, clock
}

var ctx = context.Background()

func equal[T any](t *testing.T, found, expected T) {
	t.Helper()
	one, _ := json.Marshal(found)
	two, _ := json.Marshal(expected)
	if string(one) != string(two) {
		t.Errorf("%s, not %s", one, two)
	}
}

func apiError(t *testing.T, err error) *APIError {
	t.Helper()
	var found *APIError
	if !errors.As(err, &found) {
		t.Fatalf("%v is no APIError", err)
	}
	return found
}

func TestPublishRetriesWithOneKey(t *testing.T) {
	s := startService(t)
	client, clock := connect(t, s, nil)
	s.answers = []http.HandlerFunc{
		answerJSON(503, rejection("UNAVAILABLE")),
		answerJSON(429, rejection("RATE_LIMITED"), "Retry-After: 7"),
		answerJSON(504, ""),
		answerJSON(202, `{"id":"evt_1","type":"a.b","created_at":"2026-11-20T00:00:00.000Z","deliveries":1}`),
	}
	event, err := client.Events.Publish(ctx, NewEvent{Type: "a.b", Data: json.RawMessage(`{"amount":1.0,"t":"<"}`)})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, event.ID, "evt_1")
	key := s.requests[0].key
	for _, request := range s.requests {
		equal(t, request, seen{"POST", "/v1/events", "Bearer token-1", key, `{"type":"a.b","data":{"amount":1.0,"t":"<"}}`})
	}
	equal(t, len(s.requests), 4)
	equal(t, len(key), 32)
	// Half of 250 ms; 7 s and half of 250 ms; half of 1 s.
	equal(t, clock.pauses, []time.Duration{125 * time.Millisecond, 7125 * time.Millisecond, 500 * time.Millisecond})
	if _, err := client.Events.Publish(ctx, NewEvent{Type: "a.b"}, WithIdempotencyKey("order-7")); err != nil {
		t.Fatal(err)
	}
	equal(t, s.requests[4].key, "order-7")
}

func TestPublishIsSafeIfItsAnswerIsLost(t *testing.T) {
	s := startService(t)
	client, _ := connect(t, s, nil)
	// Also if net/http itself repeats the request on another connection.
	s.answers = []http.HandlerFunc{lost, lost, answerJSON(202, `{"id":"evt_1","created_at":"2026-11-20T00:00:00.000Z"}`)}
	event, err := client.Events.Publish(ctx, NewEvent{Type: "a.b"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, event.ID, "evt_1")
	equal(t, []string{s.requests[1].key, s.requests[2].key}, []string{s.requests[0].key, s.requests[0].key})
}

func TestRetriesEnd(t *testing.T) {
	s := startService(t)
	client, clock := connect(t, s, nil)
	for range 4 {
		s.answers = append(s.answers, answerJSON(502, "<html>a proxy</html>"))
	}
	_, err := client.Endpoints.Get(ctx, "ep_1")
	equal(t, apiError(t, err).Code, "HTTP_502")
	equal(t, apiError(t, err).RequestID, "req_header")
	equal(t, len(s.requests), 4)

	s.answers = []http.HandlerFunc{answerJSON(429, rejection("RATE_LIMITED"), "Retry-After: 31")}
	clock.pauses = nil
	_, err = client.Endpoints.Get(ctx, "ep_1")
	equal(t, apiError(t, err).RetryAfter, 31*time.Second)
	equal(t, len(clock.pauses), 0)
}

func TestRetryAfterHasSecondsOfAnyLengthAndThreeFormsOfDates(t *testing.T) {
	now := time.Date(2026, 11, 26, 16, 5, 55, 0, time.UTC)
	for header, wanted := range map[string]time.Duration{
		"7":                                7 * time.Second,
		"9999999999999999999999999":        longestWait,
		"Thu, 26 Nov 2026 16:20:55 GMT":    15 * time.Minute,
		"Thursday, 26-Nov-26 16:20:55 GMT": 15 * time.Minute,
		"Thu Nov 26 16:20:55 2026":         15 * time.Minute,
	} {
		wait, ok := retryAfter(header, now)
		equal(t, ok, true)
		equal(t, wait, wanted)
	}
	_, ok := retryAfter("soon", now)
	equal(t, ok, false)
}

func TestChangesAreRetriedOnlyAfterARateLimit(t *testing.T) {
	s := startService(t)
	client, _ := connect(t, s, nil)
	s.answers = []http.HandlerFunc{answerJSON(503, rejection("UNAVAILABLE"))}
	_, err := client.Endpoints.Update(ctx, "ep_1", EndpointChange{Description: Null[string]()})
	equal(t, apiError(t, err).Code, CodeUnavailable)
	s.answers = []http.HandlerFunc{answerJSON(429, rejection("RATE_LIMITED"))}
	_, err = client.Endpoints.Update(ctx, "ep_1", EndpointChange{Description: Set("<x>"), RateLimit: Null[int64]()})
	equal(t, err, nil)
	equal(t, s.requests[0].body, `{"description":null}`)
	equal(t, s.requests[1].body, `{"description":"<x>","rate_limit":null}`)
	equal(t, len(s.requests), 3)
}

func TestADeletionWhoseAnswerWasLostSucceeds(t *testing.T) {
	s := startService(t)
	client, _ := connect(t, s, nil)
	s.answers = []http.HandlerFunc{lost, answerJSON(404, rejection("NOT_FOUND")), answerJSON(404, rejection("NOT_FOUND"))}
	equal(t, client.Endpoints.Delete(ctx, "ep/1"), nil)
	equal(t, s.requests[0].path, "/v1/webhooks/endpoints/ep%2F1")
	equal(t, apiError(t, client.Endpoints.Delete(ctx, "ep_1")).Code, CodeNotFound)
}

func TestErrorsHaveEveryInvalidMemberAndNoToken(t *testing.T) {
	s := startService(t)
	client, _ := connect(t, s, nil)
	s.answers = []http.HandlerFunc{answerJSON(422, `{"code":"VALIDATION_FAILED","title":"Invalid","status":422,
		"detail":"Bearer token-1 is echoed","request_id":"req_1","missing_permission":"a:b",
		"errors":[{"pointer":"/type","code":"pattern","detail":"a name with a dot"},{"pointer":"/data","code":"type","detail":"x"}]}`)}
	_, err := client.Events.Publish(ctx, NewEvent{Type: "x"})
	found := apiError(t, err)
	equal(t, found.Fields, []FieldError{{"/type", "pattern", "a name with a dot"}, {"/data", "type", "x"}})
	equal(t, []any{found.StatusCode, found.Code, found.RequestID, found.MissingPermission}, []any{
		422, CodeValidationFailed, "req_1", "a:b",
	})
	equal(t, err.Error(), "signet: VALIDATION_FAILED: Bearer [removed] is echoed; /type a name with a dot; /data x (request req_1)")
	if strings.Contains(string(found.Problem), "token-1") {
		t.Error("the problem has the token")
	}
}

func TestAnswersOfOthersAreErrors(t *testing.T) {
	s := startService(t)
	client, _ := connect(t, s, nil)
	s.answers = []http.HandlerFunc{answerJSON(200, "<html>"), answerJSON(307, "", "Location: "+s.URL+"/elsewhere")}
	_, err := client.Endpoints.Get(ctx, "ep_1")
	var transport *TransportError
	if !errors.As(err, &transport) || transport.Code != FailureInvalidAnswer {
		t.Error(err)
	}
	_, err = client.Endpoints.Get(ctx, "ep_1")
	equal(t, apiError(t, err).StatusCode, 307)
	equal(t, len(s.requests), 2)
}

func TestA421LeadsToTheAPIThatItNames(t *testing.T) {
	other := startService(t)
	var both sync.WaitGroup
	both.Add(2)
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/auth/token" {
			other.ServeHTTP(w, r)
			return
		}
		// A third request here would panic.
		both.Done()
		both.Wait()
		answerJSON(421, fmt.Sprintf(`{"code":"MISDIRECTED_REQUEST","base_url":"%s/"}`, other.URL))(w, r)
	}))
	defer home.Close()
	client, _ := connect(t, other, func(o *Options) { o.BaseURL, o.RegionURLs = home.URL, []string{other.URL + "/"} })
	publish := func(done chan<- error) {
		_, err := client.Events.Publish(ctx, NewEvent{Type: "a.b"})
		done <- err
	}
	done := make(chan error)
	go publish(done)
	go publish(done)
	equal(t, []error{<-done, <-done}, []error{nil, nil})
	go publish(done)
	equal(t, <-done, nil)
	for _, request := range other.requests {
		equal(t, request.method+request.path+request.authorization, "POST/v1/eventsBearer token-1")
	}
	equal(t, len(other.requests), 3)
}

func TestA421ConcernsPathsOfItsKind(t *testing.T) {
	s, other := startService(t), startService(t)
	client, _ := connect(t, s, func(o *Options) { o.RegionURLs = []string{other.URL} })
	s.answers = []http.HandlerFunc{answerJSON(421, fmt.Sprintf(`{"base_url":%q}`, other.URL))}
	// PATCH is not safe to repeat.
	_, err := client.Endpoints.Update(ctx, "ep_1", EndpointChange{Description: Set("x")})
	equal(t, err, nil)
	other.answers = []http.HandlerFunc{answerJSON(200, "{}\n", "Content-Type: application/x-ndjson")}
	for _, err := range client.DeadLetters.Export(ctx, DeliveryQuery{}) {
		equal(t, err, nil)
	}
	_, err = client.Events.Get(ctx, "evt_1")
	equal(t, err, nil)
	equal(t, []int{len(s.requests), len(other.requests)}, []int{2, 2})
}

func TestA421WithoutAnotherListedAddressIsAnError(t *testing.T) {
	s, other := startService(t), startService(t)
	client, _ := connect(t, s, func(o *Options) { o.RegionURLs = []string{other.URL} })
	for _, body := range []string{
		"<html>", `{}`, `{"base_url":7}`, `{"base_url":"ftp://example.com"}`, `{"base_url":"/"}`,
		fmt.Sprintf(`{"base_url":%q}`, s.URL), fmt.Sprintf(`{"base_url":"%s?to=x"}`, other.URL),
	} {
		s.answers, s.requests = []http.HandlerFunc{answerJSON(421, body)}, nil
		_, err := client.Endpoints.Get(ctx, "ep_1")
		equal(t, apiError(t, err).StatusCode, 421)
		equal(t, len(s.requests), 1)
	}
	// The second answer, whatever it names.
	s.answers = []http.HandlerFunc{answerJSON(421, fmt.Sprintf(`{"base_url":%q}`, other.URL))}
	other.answers = []http.HandlerFunc{answerJSON(421, fmt.Sprintf(`{"base_url":%q}`, s.URL))}
	_, err := client.Endpoints.Get(ctx, "ep_1")
	equal(t, apiError(t, err).StatusCode, 421)
	equal(t, len(other.requests), 1)
}

func TestA421SendsNoTokenToAnAddressThatIsNotListed(t *testing.T) {
	s, other := startService(t), startService(t)
	client, _ := connect(t, s, func(o *Options) { o.RegionURLs = []string{"https://us.example.com"} })
	s.answers = []http.HandlerFunc{answerJSON(421, fmt.Sprintf(`{"detail":"Elsewhere.","base_url":%q}`, other.URL))}
	_, err := client.Events.Publish(ctx, NewEvent{Type: "a.b"})
	equal(t, apiError(t, err).StatusCode, 421)
	want := "Elsewhere. The client sends no token to " + other.URL + ": add it to RegionURLs"
	if !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	equal(t, len(other.requests), 0)
}

func TestARegionThatDoesNotAnswerIsAskedForAgain(t *testing.T) {
	s, other, third := startService(t), startService(t), startService(t)
	client, _ := connect(t, s, func(o *Options) {
		o.RegionURLs, o.Retry.Attempts = []string{other.URL, third.URL}, 1
	})
	s.answers = []http.HandlerFunc{answerJSON(421, fmt.Sprintf(`{"base_url":%q}`, other.URL))}
	// net/http repeats no PATCH by itself.
	update := func() error {
		_, err := client.Endpoints.Update(ctx, "ep_1", EndpointChange{Description: Set("x")})
		return err
	}
	equal(t, update(), nil)
	other.answers = []http.HandlerFunc{lost}
	var failed *TransportError
	equal(t, errors.As(update(), &failed), true)
	s.answers = []http.HandlerFunc{answerJSON(421, fmt.Sprintf(`{"base_url":%q}`, third.URL))}
	equal(t, update(), nil)
	equal(t, len(third.requests), 1)
}

func TestTheContextEndsACall(t *testing.T) {
	s := startService(t)
	ended, cancel := context.WithCancel(ctx)
	client, _ := connect(t, s, nil)
	s.answers = []http.HandlerFunc{func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}}
	if _, err := client.Endpoints.Get(ended, "ep_1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	equal(t, len(s.requests), 1)
}

func TestASlowAnswerIsATimeout(t *testing.T) {
	s := startService(t)
	client, _ := connect(t, s, func(o *Options) { o.Retry.Attempts = 1 })
	if _, err := client.AccessToken(ctx); err != nil {
		t.Fatal(err)
	}
	client.source.core.timeout = 50 * time.Millisecond
	s.answers = []http.HandlerFunc{func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
	_, err := client.Endpoints.Get(ctx, "ep_1")
	var transport *TransportError
	if !errors.As(err, &transport) || transport.Code != FailureTimeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestListsReadPagesAsTheyAreNeeded(t *testing.T) {
	s := startService(t)
	client, _ := connect(t, s, nil)
	pages := []http.HandlerFunc{
		answerJSON(200, `{"data":[{"id":"dlv_1","state":"PAUSED_SINCE_2027"},{"id":"dlv_2"}],"next_cursor":"c 1"}`),
		answerJSON(200, `{"data":[{"id":"dlv_3"}],"next_cursor":null}`),
	}
	s.answers = pages
	list := client.Deliveries.List(DeliveryQuery{
		State: DeliveryStateDelivered, From: time.Unix(0, 0), LastStatus: 500, Metadata: map[string]string{"team": "a&b"},
	}).PerPage(2)
	var ids []string
	for delivery, err := range list.All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if delivery.ID == "dlv_1" {
			equal(t, delivery.State, "PAUSED_SINCE_2027")
		}
		ids = append(ids, delivery.ID)
	}
	equal(t, ids, []string{"dlv_1", "dlv_2", "dlv_3"})
	query := "/v1/webhooks/deliveries?%sfrom=1970-01-01T00%%3A00%%3A00Z&last_status=500&limit=2&metadata%%5Bteam%%5D=a%%26b&state=DELIVERED"
	equal(t, s.requests[0].path, fmt.Sprintf(query, ""))
	equal(t, s.requests[1].path, fmt.Sprintf(query, "cursor=c+1&"))

	s.answers = pages
	for range list.All(ctx) {
		break
	}
	equal(t, len(s.requests), 3)
	s.answers = []http.HandlerFunc{pages[0], answerJSON(400, rejection("INVALID_REQUEST"))}
	var failed error
	count := 0
	for _, err := range list.All(ctx) {
		count++
		failed = err
	}
	equal(t, apiError(t, failed).Code, CodeInvalidRequest)
	equal(t, count, 3)
}

func TestBatchItemsAreIndependent(t *testing.T) {
	s := startService(t)
	client, _ := connect(t, s, nil)
	s.answers = []http.HandlerFunc{answerJSON(202, `{"data":[
		{"index":0,"id":"evt_1","type":"a.b","created_at":"2026-11-20T00:00:00.000Z","deliveries":2,"replayed":true},
		{"index":1,"error":{"status":422,"code":"VALIDATION_FAILED","detail":"d","errors":[{"pointer":"/type"}]}}]}`)}
	items, err := client.Events.PublishBatch(ctx, []NewEvent{{Type: "a.b"}, {Type: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, []any{items[0].Event.ID, items[0].Replayed, items[0].Err}, []any{"evt_1", true, nil})
	equal(t, []any{items[1].Index, items[1].Err.StatusCode, items[1].Err.Fields[0].Pointer}, []any{1, 422, "/type"})
	if items[1].Event != nil {
		t.Error("a rejected item has an event")
	}
}

func TestAnExportIsCompleteOrAnError(t *testing.T) {
	s := startService(t)
	client, clock := connect(t, s, nil)
	lines := `{"id":"dlv_1","event":{"data":{"amount":1.0}}}` + "\n" + `{"id":"dlv_2"}` + "\n"
	answer := func(body string, more ...string) http.HandlerFunc {
		return answerJSON(200, body, append([]string{"Content-Type: application/x-ndjson; charset=utf-8"}, more...)...)
	}
	collect := func() (ids []string, failed error) {
		for letter, err := range client.DeadLetters.Export(ctx, DeliveryQuery{EventType: "a.b"}) {
			if err != nil {
				return ids, err
			}
			ids = append(ids, letter.ID)
		}
		return ids, nil
	}
	s.answers = []http.HandlerFunc{answerJSON(503, rejection("UNAVAILABLE")), answer(lines)}
	ids, err := collect()
	equal(t, []any{ids, err}, []any{[]string{"dlv_1", "dlv_2"}, nil})
	equal(t, s.requests[1].path, "/v1/webhooks/dlq/export?event_type=a.b")
	equal(t, len(clock.pauses), 1)

	broken := map[string]http.HandlerFunc{
		"the export has broken off after 1 dead letters: its last line has no end": answer(lines[:60]),
		"after 0 dead letters: a line of the export is not JSON":                   answer("<html>\n"),
		"after 0 dead letters: the service did not answer with":                    answerJSON(200, lines),
		"does not say where it ends": func(w http.ResponseWriter, _ *http.Request) {
			connection, _, _ := w.(http.Hijacker).Hijack()
			fmt.Fprint(connection, "HTTP/1.0 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n"+lines)
			connection.Close()
		},
		"cannot be reached: unexpected EOF": answer(lines, "Content-Length: 1000"),
	}
	for expected, handler := range broken {
		s.answers = []http.HandlerFunc{handler}
		if _, err := collect(); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%v, not %s", err, expected)
		}
	}
	s.answers = []http.HandlerFunc{answerJSON(429, rejection("RATE_LIMITED"), "Retry-After: 60")}
	_, err = collect()
	equal(t, apiError(t, err).Code, CodeRateLimited)
}

func TestAnExportThatFallsSilentIsATimeout(t *testing.T) {
	s := startService(t)
	// A busy machine may be silent for a second.
	client, _ := connect(t, s, func(o *Options) { o.Timeout, o.Retry.Attempts = 2*time.Second, 1 })
	taken := make(chan struct{})
	s.answers = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		io.WriteString(w, "{\"id\":\"dlv_1\"}\n")
		w.(http.Flusher).Flush()
		<-taken
		io.WriteString(w, "{\"id\":\"dlv_2\"}\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}}
	count := 0
	var failed error
	for letter, err := range client.DeadLetters.Export(ctx, DeliveryQuery{}) {
		if failed = err; err == nil {
			count++
		}
		if letter.ID == "dlv_1" {
			// The program's own time does not count.
			time.Sleep(2500 * time.Millisecond)
			close(taken)
		}
	}
	var transport *TransportError
	if count != 2 || !errors.As(failed, &transport) || transport.Code != FailureTimeout {
		t.Error(count, failed)
	}
}

func TestIDAndSecretMayComeFromAFile(t *testing.T) {
	s := startService(t)
	for _, around := range [][2]string{{"", "\n"}, {"\ufeff", "\r\n"}, {" ", "\t"}} {
		client, _ := connect(t, s, func(o *Options) {
			o.ClientID, o.ClientSecret = around[0]+o.ClientID+around[1], around[0]+o.ClientSecret+around[1]
		})
		if _, err := client.AccessToken(ctx); err != nil {
			t.Errorf("%q: %v", around, err)
		}
	}
}

func TestOptionsThatContradictAreErrors(t *testing.T) {
	for _, options := range []Options{
		{},
		{BaseURL: "ftp://x", ClientID: "cl_1"},
		{BaseURL: "http://api.example.com", ClientID: "cl_1"},
		{BaseURL: "https://u:p@api.example.com", ClientID: "cl_1"},
		{BaseURL: "https://api.example.com?x=1", ClientID: "cl_1"},
		{BaseURL: "https://api.example.com", RegionURLs: []string{"http://us.example.com"}, ClientID: "cl_1"},
		{BaseURL: "https://api.example.com", RegionURLs: []string{"https://us.example.com?x=1"}, ClientID: "cl_1"},
		{BaseURL: "https://api.example.com"},
		{BaseURL: "https://api.example.com", ClientSecret: "s", Store: NewFileCredentialStore("x")},
		{BaseURL: "https://api.example.com", ClientID: " \n"},
		{BaseURL: "https://api.example.com", ClientID: "cl_1", ClientSecret: "\n"},
		{BaseURL: "http://127.0.0.1", ClientID: "cl_1", TLS: &TLSOptions{}},
		{BaseURL: "https://api.example.com", ClientID: "cl_1", TLS: &TLSOptions{}, HTTPClient: http.DefaultClient},
	} {
		if _, err := NewClient(options); err == nil {
			t.Errorf("%+v is accepted", options)
		}
	}
	for _, options := range []Options{
		{BaseURL: "http://api.example.com/below/", ClientID: "cl_1", AllowPlainHTTP: true},
		{BaseURL: "http://[::1]:8080", ClientID: "cl_1"},
		{BaseURL: "https://api.example.com", Store: NewFileCredentialStore("x")},
	} {
		if _, err := NewClient(options); err != nil {
			t.Error(err)
		}
	}
}
