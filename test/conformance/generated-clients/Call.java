import java.util.Map;
import java.util.Set;
import operators.api.TenantsApi;
import signet.ApiClient;
import signet.ApiException;
import signet.JSON;
import signet.api.DeliveriesApi;
import signet.api.EndpointsApi;
import signet.api.EventsApi;
import signet.api.TokensApi;
import signet.model.EndpointInput;
import signet.model.EventInput;
import signet.model.EventOrBatchInput;
import signet.model.Problem;
import signet.model.TokenRequest;

class Call {
    public static void main(String[] args) throws Exception {
        var client = new ApiClient();
        client.setBasePath(System.getenv("SIGNET_URL"));
        var credentials = new TokenRequest()
            .grantType(TokenRequest.GrantTypeEnum.CLIENT_CREDENTIALS)
            .clientId(System.getenv("CLIENT_ID"))
            .clientSecret(System.getenv("CLIENT_SECRET"));
        client.setAccessToken(new TokensApi(client).issueToken(credentials).getAccessToken());

        var input = new EndpointInput()
            .url("http://127.0.0.1:19999/made")
            .events(Set.of("inference.failed"))
            .description("generated");
        var endpoint = new EndpointsApi(client).createEndpoint(input, null);

        var events = new EventsApi(client);
        var event = new EventInput().type("inference.completed").data(Map.of("run", 7));
        var accepted = events.publishEvents(new EventOrBatchInput(event), null).getAcceptedEvent();
        var deliveries = new DeliveriesApi(client).listDeliveries(
            null, accepted.getId(), null, null, null, null, null, null, null, null, 10, null);

        String refused;
        try {
            events.publishEvents(new EventOrBatchInput(event.type("x")), null);
            throw new IllegalStateException("not refused");
        } catch (ApiException error) {
            refused = JSON.getGson().fromJson(error.getResponseBody(), Problem.class).getCode().getValue();
        }

        var support = new operators.ApiClient();
        support.setBasePath(System.getenv("OPERATORS_URL"));
        support.setBearerToken(System.getenv("OPERATOR_TOKEN"));
        var tenant = new TenantsApi(support).getTenant(System.getenv("TENANT_ID"));

        System.out.println(JSON.getGson().toJson(Map.of(
            "endpoint", endpoint.getId(),
            "event", accepted.getId(),
            "deliveries", deliveries.getData().stream().map(delivery -> delivery.getId()).toList(),
            "refused", refused,
            "tenant", tenant.getId())));
    }
}
