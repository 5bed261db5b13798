package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"generated/operators"
	"generated/signet"
	"golang.org/x/oauth2"
)

func main() {
	configuration := signet.NewConfiguration()
	configuration.Servers = signet.ServerConfigurations{{URL: os.Getenv("SIGNET_URL")}}
	client := signet.NewAPIClient(configuration)

	credentials := signet.NewTokenRequest("client_credentials")
	credentials.SetClientId(os.Getenv("CLIENT_ID"))
	credentials.SetClientSecret(os.Getenv("CLIENT_SECRET"))
	token, _, err := client.TokensAPI.IssueToken(context.Background()).TokenRequest(*credentials).Execute()
	check(err)
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token.AccessToken})
	ctx := context.WithValue(context.Background(), signet.ContextOAuth2, source)

	input := signet.NewEndpointInput("http://127.0.0.1:19999/made", []string{"inference.failed"})
	input.SetDescription("generated")
	endpoint, _, err := client.EndpointsAPI.CreateEndpoint(ctx).EndpointInput(*input).Execute()
	check(err)

	event := signet.NewEventInput("inference.completed", map[string]interface{}{"run": 7})
	body := signet.EventOrBatchInput{EventInput: event}
	published, _, err := client.EventsAPI.PublishEvents(ctx).EventOrBatchInput(body).Execute()
	check(err)
	accepted := published.AcceptedEvent

	page, _, err := client.DeliveriesAPI.ListDeliveries(ctx).EventId(accepted.Id).Limit(10).Execute()
	check(err)
	deliveries := []string{}
	for _, delivery := range page.Data {
		deliveries = append(deliveries, delivery.Id)
	}

	event.SetType("x")
	_, _, err = client.EventsAPI.PublishEvents(ctx).EventOrBatchInput(body).Execute()
	var refused *signet.GenericOpenAPIError
	if !errors.As(err, &refused) {
		log.Fatal(err)
	}

	ofOperators := operators.NewConfiguration()
	ofOperators.Servers = operators.ServerConfigurations{{URL: os.Getenv("OPERATORS_URL")}}
	support := context.WithValue(context.Background(), operators.ContextAccessToken, os.Getenv("OPERATOR_TOKEN"))
	tenant, _, err := operators.NewAPIClient(ofOperators).TenantsAPI.GetTenant(support, os.Getenv("TENANT_ID")).Execute()
	check(err)

	text, err := json.Marshal(map[string]any{
		"endpoint": endpoint.Id, "event": accepted.Id, "deliveries": deliveries,
		"refused": refused.Model().(signet.Problem).Code, "tenant": tenant.Id,
	})
	check(err)
	fmt.Println(string(text))
}

func check(err error) {
	if err == nil {
		return
	}
	var answer *signet.GenericOpenAPIError
	if errors.As(err, &answer) {
		log.Fatal(err, string(answer.Body()))
	}
	log.Fatal(err)
}
