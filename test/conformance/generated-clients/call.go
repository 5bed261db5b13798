package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	"generated/api"
)

func main() {
	ctx := context.Background()
	client, err := api.NewClientWithResponses(os.Getenv("SIGNET_URL"))
	check(err)
	id, secret := os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_SECRET")
	token, err := client.IssueTokenWithResponse(ctx, api.TokenRequest{
		GrantType: api.ClientCredentials, ClientId: &id, ClientSecret: &secret,
	})
	check(err)
	need(token.JSON200 != nil, token.Body)
	authorize := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+token.JSON200.AccessToken)
		return nil
	}

	description := "generated"
	endpoint, err := client.CreateEndpointWithResponse(ctx, nil, api.NewEndpoint{
		Url: "http://127.0.0.1:19999/made", Events: []string{"inference.failed"}, Description: &description,
	}, authorize)
	check(err)
	need(endpoint.JSON201 != nil, endpoint.Body)

	event := api.NewEvent{Type: "inference.completed", Data: map[string]interface{}{"run": 7}}
	var body api.NewEventOrBatch
	check(body.FromNewEvent(event))
	published, err := client.PublishEventsWithResponse(ctx, nil, body, authorize)
	check(err)
	need(published.JSON202 != nil, published.Body)
	accepted, err := published.JSON202.AsAcceptedEvent()
	check(err)

	limit := 10
	page, err := client.ListDeliveriesWithResponse(ctx, &api.ListDeliveriesParams{
		EventId: &accepted.Id, Limit: &limit,
	}, authorize)
	check(err)
	need(page.JSON200 != nil, page.Body)
	deliveries := []string{}
	for _, delivery := range page.JSON200.Data {
		deliveries = append(deliveries, delivery.Id)
	}

	event.Type = "x"
	check(body.FromNewEvent(event))
	refused, err := client.PublishEventsWithResponse(ctx, nil, body, authorize)
	check(err)
	need(refused.ApplicationproblemJSON422 != nil, refused.Body)

	text, err := json.Marshal(map[string]any{
		"endpoint": endpoint.JSON201.Id, "event": accepted.Id, "deliveries": deliveries,
		"refused": refused.ApplicationproblemJSON422.Code,
	})
	check(err)
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// need stops with the problem that the service answered.
func need(met bool, answer []byte) {
	if !met {
		log.Fatal(string(answer))
	}
}
