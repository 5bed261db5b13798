package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	"generated/operators"
	"generated/signet"
)

func main() {
	ctx := context.Background()
	client, err := signet.NewClientWithResponses(os.Getenv("SIGNET_URL"))
	check(err)
	id, secret := os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_SECRET")
	token, err := client.IssueTokenWithResponse(ctx, signet.TokenRequest{
		GrantType: signet.ClientCredentials, ClientId: &id, ClientSecret: &secret,
	})
	check(err)
	need(token.JSON200 != nil, token.Body)
	authorize := bearer(token.JSON200.AccessToken)

	description := "generated"
	endpoint, err := client.CreateEndpointWithResponse(ctx, nil, signet.EndpointInput{
		Url: "http://127.0.0.1:19999/made", Events: []string{"inference.failed"}, Description: &description,
	}, authorize)
	check(err)
	need(endpoint.JSON201 != nil, endpoint.Body)

	event := signet.EventInput{Type: "inference.completed", Data: map[string]interface{}{"run": 7}}
	var body signet.EventOrBatchInput
	check(body.FromEventInput(event))
	published, err := client.PublishEventsWithResponse(ctx, nil, body, authorize)
	check(err)
	need(published.JSON202 != nil, published.Body)
	accepted, err := published.JSON202.AsAcceptedEvent()
	check(err)

	limit := 10
	page, err := client.ListDeliveriesWithResponse(ctx, &signet.ListDeliveriesParams{
		EventId: &accepted.Id, Limit: &limit,
	}, authorize)
	check(err)
	need(page.JSON200 != nil, page.Body)
	deliveries := []string{}
	for _, delivery := range page.JSON200.Data {
		deliveries = append(deliveries, delivery.Id)
	}

	event.Type = "x"
	check(body.FromEventInput(event))
	refused, err := client.PublishEventsWithResponse(ctx, nil, body, authorize)
	check(err)
	need(refused.ApplicationproblemJSON422 != nil, refused.Body)

	support, err := operators.NewClientWithResponses(os.Getenv("OPERATORS_URL"))
	check(err)
	tenant, err := support.GetTenantWithResponse(ctx, os.Getenv("TENANT_ID"), bearer(os.Getenv("OPERATOR_TOKEN")))
	check(err)
	need(tenant.JSON200 != nil, tenant.Body)

	text, err := json.Marshal(map[string]any{
		"endpoint": endpoint.JSON201.Id, "event": accepted.Id, "deliveries": deliveries,
		"refused": refused.ApplicationproblemJSON422.Code, "tenant": tenant.JSON200.Id,
	})
	check(err)
	fmt.Println(string(text))
}

func bearer(token string) func(context.Context, *http.Request) error {
	return func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
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
