// A program of a tenant, in a module of its own, for test/conformance/sdk-go.test.ts: `call` uses the API and receives
// webhooks, `rotate` follows a rotation of its secret, `workload` has no secret. It prints what it found as JSON.
package main

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	signet "github.com/signet-delivery/signet/sdk/go"
)

const patience = 40 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	warnings := []string{}
	options := signet.Options{
		BaseURL: os.Getenv("SIGNET_URL"),
		Warn:    func(warning signet.Warning) { warnings = append(warnings, warning.Code) },
	}
	if os.Args[1] == "workload" {
		workload(&options)
	} else {
		options.Store = signet.NewFileCredentialStore(os.Getenv("CREDENTIAL_FILE"))
	}
	client, err := signet.NewClient(options)
	check(err)
	found := map[string]any{}
	switch os.Args[1] {
	case "rotate":
		rotate(ctx, client, found)
	case "workload":
		credentials(ctx, client, found)
	default:
		call(ctx, client, found)
	}
	found["warnings"] = warnings
	check(json.NewEncoder(os.Stdout).Encode(found))
}

// workload authenticates by the client certificate, or also by a private key.
func workload(options *signet.Options) {
	options.ClientID = os.Getenv("CLIENT_ID")
	roots := x509.NewCertPool()
	authority, err := os.ReadFile("ca.pem")
	check(err)
	need(roots.AppendCertsFromPEM(authority), "an authority")
	options.TLS = &signet.TLSOptions{RootCAs: roots, Certificate: signet.CertificateFiles("client.pem", "client.key")}
	text, err := os.ReadFile("assertion.key")
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	check(err)
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	check(err)
	options.Assertion, err = signet.PrivateKeyAssertion(options.ClientID, "k1", key.(crypto.Signer))
	check(err)
}

// credentials calls the API with the token, which is bound to the certificate.
func credentials(ctx context.Context, client *signet.Client, found map[string]any) {
	token, err := client.AccessToken(ctx)
	check(err)
	page, err := client.Credentials.List().Page(ctx, "")
	check(err)
	found["token"] = token.Value
	found["client"] = page.Data[0].ClientID
}

// rotate gets two tokens: the first answer names a successor, and the second request uses it.
func rotate(ctx context.Context, client *signet.Client, found map[string]any) {
	one, err := client.AccessToken(ctx)
	check(err)
	two, err := client.AccessTokenInsteadOf(ctx, one.Value)
	check(err)
	found["different"] = one.Value != two.Value
}

func call(ctx context.Context, client *signet.Client, found map[string]any) {
	events := make(chan *signet.WebhookEvent, 10)
	var secrets []string
	receiver := signet.NewReceiver(signet.ReceiverOptions{
		Secrets: func(context.Context) ([]string, error) { return secrets, nil },
		OnEvent: func(_ context.Context, event *signet.WebhookEvent) error {
			events <- event
			return nil
		},
		OnError: func(err error) { log.Print(err) },
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go http.Serve(listener, receiver)

	// The first ping arrives before the answer with the secret, and is repeated.
	endpoint, err := client.Endpoints.Create(ctx, signet.NewEndpoint{
		URL:      "http://" + listener.Addr().String() + "/hook",
		Events:   []string{"inference.completed", "inference.failed"},
		Metadata: map[string]any{"team": "a"},
	})
	check(err)
	secrets = []string{endpoint.Secret}
	waitActive(ctx, client, endpoint.ID)
	found["endpoint"] = endpoint.ID

	published, err := client.Events.Publish(ctx, signet.NewEvent{
		Type: "inference.completed", Data: json.RawMessage(`{"amount":1.0,"big":1152921504606846976,"text":"<&>"}`),
	}, signet.WithIdempotencyKey("once"))
	check(err)
	again, err := client.Events.Publish(ctx, signet.NewEvent{
		Type: "inference.completed", Data: json.RawMessage(`{"amount":1.0,"big":1152921504606846976,"text":"<&>"}`),
	}, signet.WithIdempotencyKey("once"))
	check(err)
	received := receive(events)
	stored, err := client.Events.Get(ctx, published.ID)
	check(err)
	found["event"] = published.ID
	found["again"] = again.ID
	found["received"] = map[string]any{
		"id": received.ID, "type": received.Type, "scheme": received.Scheme, "data": string(received.Data()),
	}
	found["stored"] = string(stored.Data)

	deliveries(ctx, client, published.ID, events, found)
	batch(ctx, client, found)
	failures(ctx, client, found)
	endpoints(ctx, client, endpoint.ID, found)
	secrets = append(secrets, rotateSecret(ctx, client, endpoint.ID, found))
	_, err = client.Events.Publish(ctx, signet.NewEvent{Type: "inference.failed", Data: map[string]any{"run": 9}})
	check(err)
	for event := receive(events); event.Type != "inference.failed"; event = receive(events) {
	}
	deadLetters(ctx, client, endpoint.ID, events, found)
	stream(ctx, client, found)
	check(client.Endpoints.Delete(ctx, endpoint.ID))
	_, err = client.Endpoints.Get(ctx, endpoint.ID)
	found["deleted"] = codeOf(err)
}

func waitActive(ctx context.Context, client *signet.Client, id string) {
	// Another ping now instead of at its time. It may be ACTIVE meanwhile.
	if _, err := client.Endpoints.Verify(ctx, id); codeOf(err) != signet.CodeInvalidState {
		check(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		endpoint, err := client.Endpoints.Get(ctx, id)
		check(err)
		if endpoint.State == signet.EndpointStateActive {
			return
		}
		need(time.Now().Before(end), "the endpoint is not verified")
	}
}

func deliveries(
	ctx context.Context, client *signet.Client, eventID string, events chan *signet.WebhookEvent, found map[string]any,
) {
	var listed []string
	for delivery, err := range client.Deliveries.List(signet.DeliveryQuery{EventID: eventID}).PerPage(1).All(ctx) {
		check(err)
		listed = append(listed, delivery.ID)
	}
	need(len(listed) == 1, "one delivery")
	delivered := untilState(ctx, client, listed[0], signet.DeliveryStateDelivered)
	attempts, err := client.Deliveries.Attempts(delivered.ID).Page(ctx, "")
	check(err)
	resent, err := client.Deliveries.Resend(ctx, delivered.ID)
	check(err)
	found["delivery"] = delivered.ID
	found["attempts"] = len(attempts.Data)
	found["cycle"] = resent.Cycle
	// The receiver has the event already: it answers, and does not pass it on.
	untilState(ctx, client, delivered.ID, signet.DeliveryStateDelivered)
	need(len(events) == 0, "no duplicate")
}

func untilState(ctx context.Context, client *signet.Client, id string, state signet.DeliveryState) *signet.Delivery {
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		delivery, err := client.Deliveries.Get(ctx, id)
		check(err)
		if delivery.State == state {
			return delivery
		}
		need(time.Now().Before(end), "the delivery is "+string(delivery.State))
	}
}

func batch(ctx context.Context, client *signet.Client, found map[string]any) {
	items, err := client.Events.PublishBatch(ctx, []signet.NewEvent{
		{Type: "a.b", Data: map[string]any{}, ID: "batch-1"},
		{Type: "not a type", Data: map[string]any{}},
	})
	check(err)
	found["batch"] = []any{items[0].Event.Type, items[1].Err.Code, items[1].Err.StatusCode}
}

// failures finds the members of typed errors.
func failures(ctx context.Context, client *signet.Client, found map[string]any) {
	_, err := client.Events.Publish(ctx, signet.NewEvent{Type: "x", Data: map[string]any{}})
	var invalid *signet.APIError
	need(errors.As(err, &invalid), err)
	need(invalid.RequestID != "" && invalid.StatusCode == 422, err)
	found["invalid"] = []any{invalid.Code, invalid.Fields[0].Pointer}

	narrow, err := signet.NewClient(signet.Options{
		BaseURL: os.Getenv("SIGNET_URL"),
		Store:   signet.NewFileCredentialStore(os.Getenv("CREDENTIAL_FILE")),
		Scopes:  []string{"webhooks:read"},
	})
	check(err)
	_, err = narrow.Events.Publish(ctx, signet.NewEvent{Type: "a.b", Data: map[string]any{}})
	var forbidden *signet.APIError
	need(errors.As(err, &forbidden), err)
	found["forbidden"] = []any{forbidden.Code, forbidden.MissingPermission}

	stranger, err := signet.NewClient(signet.Options{
		BaseURL: os.Getenv("SIGNET_URL"), ClientID: "cl_0123456789abcdefghijklmn", ClientSecret: "sgn_live_sk_wrong",
	})
	check(err)
	_, err = stranger.AccessToken(ctx)
	found["unknown"] = codeOf(err)
}

func endpoints(ctx context.Context, client *signet.Client, id string, found map[string]any) {
	changed, err := client.Endpoints.Update(ctx, id, signet.EndpointChange{
		Description: signet.Set("changed"), Metadata: signet.Null[any](),
	})
	check(err)
	var listed []string
	for endpoint, err := range client.Endpoints.List(signet.EndpointQuery{State: signet.EndpointStateActive}).All(ctx) {
		check(err)
		listed = append(listed, endpoint.ID)
	}
	found["changed"] = []any{*changed.Description, string(changed.Metadata), changed.RequireEcho}
	found["listed"] = listed
}

func rotateSecret(ctx context.Context, client *signet.Client, id string, found map[string]any) string {
	rotated, err := client.Endpoints.RotateSecret(ctx, id, signet.SecretRotation{OverlapSeconds: signet.Ptr[int64](60)})
	check(err)
	versions, err := client.Endpoints.Secrets(ctx, id)
	check(err)
	found["fingerprint"] = versions.Data[0].Fingerprint == rotated.Fingerprint
	_, err = client.Endpoints.ActivateSecret(ctx, id)
	check(err)
	return rotated.Secret
}

// deadLetters disables the endpoint, whose events become dead letters at once, and replays one.
func deadLetters(
	ctx context.Context, client *signet.Client, id string, events chan *signet.WebhookEvent, found map[string]any,
) {
	_, err := client.Endpoints.Disable(ctx, id)
	check(err)
	event, err := client.Events.Publish(ctx, signet.NewEvent{Type: "inference.completed", Data: map[string]any{"run": 8}})
	check(err)
	var letter signet.DeadLetter
	for end := time.Now().Add(patience); letter.ID == ""; time.Sleep(50 * time.Millisecond) {
		for each, err := range client.DeadLetters.List(signet.DeliveryQuery{EventID: event.ID}).All(ctx) {
			check(err)
			letter = each
		}
		need(time.Now().Before(end), "no dead letter")
	}
	for exported, err := range client.DeadLetters.Export(ctx, signet.DeliveryQuery{EventID: event.ID}) {
		check(err)
		found["exported"] = exported.ID == letter.ID && string(exported.Event) == string(letter.Event)
	}
	count, err := client.DeadLetters.CountReplay(ctx, signet.DeadLetterSelection{IDs: []string{letter.ID}})
	check(err)
	_, err = client.Endpoints.Enable(ctx, id)
	check(err)
	waitActive(ctx, client, id)
	replayed, err := client.DeadLetters.Replay(ctx, letter.ID)
	check(err)
	received := receive(events)
	found["letter"] = []any{*letter.Reason, count.Total, count.WouldFail, replayed.Cycle, received.ID == event.ID}
}

// stream follows security events by polling.
func stream(ctx context.Context, client *signet.Client, found map[string]any) {
	made, err := client.Streams.Create(ctx, signet.NewStream{})
	check(err)
	id := made.StreamID
	changed, err := client.Streams.Update(ctx, id, signet.StreamChange{Description: signet.Ptr("changed")})
	check(err)
	subject := signet.SubjectIdentifier{Format: "opaque", ID: "ten_1"}
	check(client.Streams.RemoveSubject(ctx, id, subject))
	check(client.Streams.AddSubject(ctx, id, subject))
	_, err = client.Streams.SetStatus(ctx, id, signet.StreamStatusStatusPaused, "maintenance")
	check(err)
	status, err := client.Streams.Status(ctx, id)
	check(err)
	_, err = client.Streams.SetStatus(ctx, id, signet.StreamStatusStatusEnabled, "")
	check(err)
	check(client.Streams.Verify(ctx, id, "here"))
	first, err := client.Streams.Poll(ctx, id, signet.PollRequest{})
	check(err)
	done := signet.PollRequest{ReturnImmediately: signet.Ptr(true)}
	for jti := range first.Sets {
		done.SetErrs = map[string]signet.SetError{jti: {Err: "invalid_audience"}}
	}
	rest, err := client.Streams.Poll(ctx, id, done)
	check(err)
	found["stream"] = []any{
		changed.Description, status.Status, status.Reason, len(first.Sets), len(rest.Sets),
	}
	check(client.Streams.Delete(ctx, id))
	_, err = client.Streams.Get(ctx, id)
	need(codeOf(err) == signet.CodeNotFound, err)
	streams, err := client.Streams.List(ctx)
	check(err)
	need(len(streams) == 0, "no stream is left")
}

func receive(events chan *signet.WebhookEvent) *signet.WebhookEvent {
	select {
	case event := <-events:
		return event
	case <-time.After(patience):
		log.Fatal("no webhook")
		return nil
	}
}

func codeOf(err error) signet.ErrorCode {
	var api *signet.APIError
	if errors.As(err, &api) {
		return api.Code
	}
	return ""
}

func check(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func need(met bool, why any) {
	if !met {
		log.Output(2, fmt.Sprint(why))
		os.Exit(1)
	}
}
