package signet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	signet "github.com/signet-delivery/signet/sdk/go"
)

func save(context.Context, string, []byte) error { return nil }

func ExampleNewReceiver() {
	secret := os.Getenv("SIGNET_WEBHOOK_SECRET")
	// region receiver
	http.Handle("/hook", signet.NewReceiver(signet.ReceiverOptions{
		Secrets: signet.Secrets(secret),
		OnEvent: func(ctx context.Context, event *signet.WebhookEvent) error {
			return save(ctx, event.ID, event.Body)
		},
	}))
	// endregion
}

func ExampleVerify() {
	secret := os.Getenv("SIGNET_WEBHOOK_SECRET")
	http.HandleFunc("/hook", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 524_288))
		if err != nil {
			return
		}
		// region verify
		payload, err := signet.Verify(body, r.Header, []string{secret}, signet.VerifyOptions{})
		var rejected *signet.VerificationError
		if errors.As(err, &rejected) {
			http.Error(w, string(rejected.Code), http.StatusUnauthorized)
			return
		}
		// endregion
		if err != nil {
			log.Fatal(err)
		}
		_ = save(r.Context(), payload.ID, payload.Body)
	})
}

func ExampleNewClient() {
	ctx := context.Background()
	// region client
	client, err := signet.NewClient(signet.Options{
		BaseURL: "https://api.example.com",
		Store:   signet.NewFileCredentialStore("/var/lib/app/credential.json"),
	})
	if err != nil {
		log.Fatal(err)
	}
	event, err := client.Events.Publish(ctx, signet.NewEvent{
		Type: "pipeline.failed",
		Data: map[string]any{"run": 7},
	})
	// endregion
	fmt.Println(event.ID, err)
}

func ExampleAPIError() {
	ctx := context.Background()
	client, err := signet.NewClient(signet.Options{BaseURL: "https://api.example.com", ClientID: "cl_1"})
	if err != nil {
		log.Fatal(err)
	}
	// region error
	_, err = client.Events.Publish(ctx, signet.NewEvent{Type: "x"})
	var rejected *signet.APIError
	if errors.As(err, &rejected) {
		fmt.Println(rejected.StatusCode, rejected.Code, rejected.RequestID)
		for _, field := range rejected.Fields {
			fmt.Println(field.Pointer, field.Detail)
		}
	}
	// endregion
}

func ExampleList_All() {
	ctx := context.Background()
	client, err := signet.NewClient(signet.Options{BaseURL: "https://api.example.com", ClientID: "cl_1"})
	if err != nil {
		log.Fatal(err)
	}
	// region list
	for letter, err := range client.DeadLetters.List(signet.DeliveryQuery{EventType: "pipeline.failed"}).All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if _, err := client.DeadLetters.Replay(ctx, letter.ID); err != nil {
			log.Fatal(err)
		}
	}
	// endregion
}
