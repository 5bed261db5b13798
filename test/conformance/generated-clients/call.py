import importlib
import json
import os
import pkgutil

import generated
from generated import AuthenticatedClient, Client
from generated.api.deliveries import list_deliveries
from generated.api.endpoints import create_endpoint
from generated.api.events import publish_events
from generated.api.tokens import issue_token
from generated.models.accepted_event import AcceptedEvent
from generated.models.delivery_page import DeliveryPage
from generated.models.new_endpoint import NewEndpoint
from generated.models.new_event import NewEvent
from generated.models.new_event_data import NewEventData
from generated.models.problem import Problem
from generated.models.registered_endpoint import RegisteredEndpoint
from generated.models.token import Token
from generated.models.token_request import TokenRequest
from generated.models.token_request_grant_type import TokenRequestGrantType

# Python finds most mistakes of a generator when it imports a module.
modules = [found.name for found in pkgutil.walk_packages(generated.__path__, "generated.")]
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
        body=NewEndpoint(
            url="http://127.0.0.1:19999/made", events=["inference.failed"], description="generated"
        ),
    ),
)
event = NewEvent(type_="inference.completed", data=NewEventData.from_dict({"run": 7}))
accepted = need(AcceptedEvent, publish_events.sync(client=client, body=event))
page = need(DeliveryPage, list_deliveries.sync(client=client, event_id=accepted.id, limit=10))
event.type_ = "x"
refused = need(Problem, publish_events.sync(client=client, body=event))
print(
    json.dumps(
        {
            "endpoint": endpoint.id,
            "event": accepted.id,
            "deliveries": [delivery.id for delivery in page.data],
            "refused": refused.code,
            "modules": len(modules),
        }
    )
)
