// Publish publishes an event and prints its deliveries.
//
//	SIGNET_URL=https://api.example.com SIGNET_CREDENTIAL_FILE=credential.json go run .
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	signet "github.com/signet-delivery/signet/sdk/go"
)

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := signet.NewClient(signet.Options{
		BaseURL: os.Getenv("SIGNET_URL"),
		Store:   signet.NewFileCredentialStore(os.Getenv("SIGNET_CREDENTIAL_FILE")),
	})
	if err != nil {
		log.Fatal(err)
	}
	event, err := client.Events.Publish(ctx, signet.NewEvent{
		Type: "inference.completed",
		Data: map[string]any{"run": 7},
	})
	var rejected *signet.APIError
	if errors.As(err, &rejected) {
		for _, field := range rejected.Fields {
			log.Printf("%s: %s", field.Pointer, field.Detail)
		}
		log.Fatalf("%s, request %s", rejected.Code, rejected.RequestID)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(event.ID)
	for delivery, err := range client.Deliveries.List(signet.DeliveryQuery{EventID: event.ID}).All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(delivery.ID, delivery.State)
	}
}
