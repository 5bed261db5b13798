// Receiver receives webhooks, verifies them and prints each event once.
//
//	SIGNET_WEBHOOK_SECRET=whsec_… PORT=9000 go run .
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	signet "github.com/signet-delivery/signet/sdk/go"
)

// save stores the event. Do the work afterwards: the service waits for 10 seconds.
func save(_ context.Context, event *signet.WebhookEvent) error {
	_, err := fmt.Println(event.ID, event.Type, string(event.Data()))
	return err
}

func main() {
	receiver := signet.NewReceiver(signet.ReceiverOptions{
		// During a rotation, both secrets: separate them by a blank.
		Secrets: signet.Secrets(strings.Fields(os.Getenv("SIGNET_WEBHOOK_SECRET"))...),
		OnEvent: save,
		OnError: func(err error) { log.Print(err) },
	})
	server := &http.Server{
		Addr:              "127.0.0.1:" + cmp.Or(os.Getenv("PORT"), "9000"),
		Handler:           receiver,
		ReadHeaderTimeout: 10 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}
