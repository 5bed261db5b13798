// Package signet is the client of Signet, and a receiver of its signed webhooks. It depends only on the standard library.
//
// A receiver verifies each request and answers it:
//
//	http.Handle("/hook", signet.NewReceiver(signet.ReceiverOptions{
//		Secrets: signet.Secrets(os.Getenv("WEBHOOK_SECRET")),
//		OnEvent: func(ctx context.Context, event *signet.WebhookEvent) error {
//			return store(ctx, event.ID, event.Body)
//		},
//	}))
//
// A client gets tokens, follows the rotation of its secret, and retries what is safe to repeat:
//
//	client, err := signet.NewClient(signet.Options{
//		BaseURL: "https://api.example.com",
//		Store:   signet.NewFileCredentialStore("/var/lib/app/credential.json"),
//	})
//	event, err := client.Events.Publish(ctx, signet.NewEvent{Type: "pipeline.failed", Data: map[string]any{"run": 7}})
//
// Every error of the service is an [APIError], and every missing answer a [TransportError]. Both are found with errors.As.
package signet
