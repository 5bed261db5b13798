import importlib
import json
import os
import pkgutil

import operators
import signet
from operators.api.tenants import get_tenant
from operators.models.tenant import Tenant
from signet import AuthenticatedClient, Client
from signet.api.deliveries import list_deliveries
from signet.api.endpoints import create_endpoint
from signet.api.events import publish_events
from signet.api.tokens import issue_token
from signet.models.accepted_event import AcceptedEvent
from signet.models.delivery_page import DeliveryPage
from signet.models.endpoint_input import EndpointInput
from signet.models.event_input import EventInput
from signet.models.event_input_data import EventInputData
from signet.models.problem import Problem
from signet.models.registered_endpoint import RegisteredEndpoint
from signet.models.token import Token
from signet.models.token_request import TokenRequest
from signet.models.token_request_grant_type import TokenRequestGrantType

# Python finds most mistakes of a generator when it imports a module.
modules = [
    found.name
    for package in (signet, operators)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
for name in modules:
    importlib.import_module(name)


def need(kind, answer):
    """Returns the answer, or raises the problem that the service answered."""
    if not isinstance(answer, kind):
        raise SystemExit(f"{answer}")
    return answer


url = os.environ["SIGNET_URL"]
request = TokenRequest(
    grant_type=TokenRequestGrantType.CLIENT_CREDENTIALS,
    client_id=os.environ["CLIENT_ID"],
    client_secret=os.environ["CLIENT_SECRET"],
)
token = need(Token, issue_token.sync(client=Client(base_url=url), body=request))
client = AuthenticatedClient(base_url=url, token=token.access_token)

endpoint = need(
    RegisteredEndpoint,
    create_endpoint.sync(
        client=client,
        body=EndpointInput(
            url="http://127.0.0.1:19999/made", events=["inference.failed"], description="generated"
        ),
    ),
)
event = EventInput(type_="inference.completed", data=EventInputData.from_dict({"run": 7}))
accepted = need(AcceptedEvent, publish_events.sync(client=client, body=event))
page = need(DeliveryPage, list_deliveries.sync(client=client, event_id=accepted.id, limit=10))
event.type_ = "x"
refused = need(Problem, publish_events.sync(client=client, body=event))
support = AuthenticatedClient(base_url=os.environ["OPERATORS_URL"], token=os.environ["OPERATOR_TOKEN"])
tenant = need(Tenant, get_tenant.sync(os.environ["TENANT_ID"], client=support))
print(
    json.dumps(
        {
            "endpoint": endpoint.id,
            "event": accepted.id,
            "deliveries": [delivery.id for delivery in page.data],
            "refused": refused.code,
            "tenant": tenant.id,
            "modules": len(modules),
        }
    )
)
