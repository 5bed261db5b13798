import importlib
import json
import os
import pkgutil

import operators
import signet
from signet.exceptions import UnprocessableEntityException

for package in (signet, operators):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(found.name)

configuration = signet.Configuration(host=os.environ["SIGNET_URL"])
client = signet.ApiClient(configuration)
token = signet.TokensApi(client).issue_token(
    signet.TokenRequest(
        grant_type="client_credentials",
        client_id=os.environ["CLIENT_ID"],
        client_secret=os.environ["CLIENT_SECRET"],
    )
)
configuration.access_token = token.access_token
endpoint = signet.EndpointsApi(client).create_endpoint(
    signet.EndpointInput(
        url="http://127.0.0.1:19999/made", events=["inference.failed"], description="generated"
    )
)
events = signet.EventsApi(client)
event = signet.EventInput(type="inference.completed", data={"run": 7})
accepted = events.publish_events(signet.EventOrBatchInput(event)).actual_instance
page = signet.DeliveriesApi(client).list_deliveries(event_id=accepted.id, limit=10)
# The client itself refuses the type, unless the event is made without a check.
try:
    events.publish_events(signet.EventOrBatchInput(signet.EventInput.model_construct(type="x", data={"run": 7})))
    raise SystemExit("not refused")
except UnprocessableEntityException as error:
    refused = error.data.code

of_operators = operators.Configuration(
    host=os.environ["OPERATORS_URL"], access_token=os.environ["OPERATOR_TOKEN"]
)
tenant = operators.TenantsApi(operators.ApiClient(of_operators)).get_tenant(os.environ["TENANT_ID"])
print(
    json.dumps(
        {
            "endpoint": endpoint.id,
            "event": accepted.id,
            "deliveries": [delivery.id for delivery in page.data],
            "refused": refused,
            "tenant": tenant.id,
        }
    )
)
