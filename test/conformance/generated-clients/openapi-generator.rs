use serde_json::json;
use signet::apis::{configuration::Configuration, deliveries_api, endpoints_api, events_api, tokens_api, Error};
use signet::models::{
    token_request::GrantType, DuplicateEventOrAcceptedEventOrAcceptedBatch as Answer, EndpointInput, EventInput,
    EventOrBatchInput, Problem, TokenRequest,
};
use std::{collections::HashMap, env::var};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut client = Configuration::new();
    client.base_path = var("SIGNET_URL")?;
    let mut credentials = TokenRequest::new(GrantType::ClientCredentials);
    credentials.client_id = Some(var("CLIENT_ID")?);
    credentials.client_secret = Some(var("CLIENT_SECRET")?);
    client.oauth_access_token = Some(tokens_api::issue_token(&client, credentials).await?.access_token);

    let mut input = EndpointInput::new("http://127.0.0.1:19999/made".into(), vec!["inference.failed".into()]);
    input.description = Some(Some("generated".into()));
    let endpoint = endpoints_api::create_endpoint(&client, input, None).await?;

    let data = HashMap::from([("run".to_string(), json!(7))]);
    let event = |kind: &str| EventOrBatchInput::EventInput(Box::new(EventInput::new(kind.into(), Some(data.clone()))));
    let Answer::AcceptedEvent(accepted) = events_api::publish_events(&client, event("inference.completed"), None).await?
    else {
        panic!("not an accepted event");
    };
    let page = deliveries_api::list_deliveries(
        &client, None, Some(&accepted.id), None, None, None, None, None, None, None, None, Some(10), None,
    )
    .await?;
    let Err(Error::ResponseError(refused)) = events_api::publish_events(&client, event("x"), None).await else {
        panic!("not refused");
    };
    // The entity is of the first status, since all have the same type.
    let problem: Problem = serde_json::from_str(&refused.content)?;

    let mut support = operators::apis::configuration::Configuration::new();
    support.base_path = var("OPERATORS_URL")?;
    support.bearer_access_token = Some(var("OPERATOR_TOKEN")?);
    let tenant = operators::apis::tenants_api::get_tenant(&support, &var("TENANT_ID")?).await?;

    let called = json!({
        "endpoint": endpoint.id,
        "event": accepted.id,
        "deliveries": page.data.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(),
        "refused": problem.code,
        "tenant": tenant.id,
    });
    println!("{called}");
    Ok(())
}
