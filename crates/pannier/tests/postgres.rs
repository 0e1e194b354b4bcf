//! Collections of a database on the shelf of a server: under names, and never by an address in a request.
#![cfg(unix)]

#[path = "../../pannier-postgres/tests/support/mod.rs"]
mod support;

use pannier::ops::{Answer, Control, Request, SearchRequest, StatsRequest};
use pannier::{NamedFolder, Shelf};
use pannier_docs::{BuildOptions, DocumentSource};
use serde_json::json;

#[test]
fn a_server_opens_the_addresses_it_was_started_with() {
    let Some((database, address)) = support::database() else { return };
    let scratch = support::Scratch::new();
    scratch.write("deploy.md", "# Deploy\n\nDo not deploy on Fridays.\n");
    let source = DocumentSource::new(scratch.docs());
    database.build(&source, &BuildOptions::default(), &mut |_| {}).unwrap();
    let secret = address.replace("pannier@", "pannier:hunter2@");
    let away = "away=postgres://me:hunter2@127.0.0.1:1/db";
    let folders: Vec<NamedFolder> =
        [format!("team={secret}"), away.to_owned()].iter().map(|text| text.parse().unwrap()).collect();
    let shelf = Shelf::default().with_documents(&folders).unwrap();
    let search = |index: &str| {
        let request = json!({ "query": "deploy", "index": index });
        SearchRequest::from_value(request).unwrap().run(&shelf, &Control::default())
    };
    let text = search("team").unwrap().text().into_owned();
    assert!(text.contains("Do not deploy on Fridays."), "{text}");
    // A later build is seen by the next request.
    scratch.write("deploy.md", "# Deploy\n\nDeploy on Mondays.\n");
    database.build(&source, &BuildOptions::default(), &mut |_| {}).unwrap();
    assert!(search("team").unwrap().text().contains("Deploy on Mondays."));
    let stats = StatsRequest::from_value(json!({ "index": "team" })).unwrap();
    assert_eq!(stats.run(&shelf, &Control::default()).unwrap().manifest.documents, 1);
    for name in [secret.as_str(), "away", "postgres://me:hunter2@elsewhere/db"] {
        let error = search(name).unwrap_err();
        let message = shelf.without_paths(&error.to_string());
        if name == "away" {
            assert!(message.contains("the server is away") && !message.contains("127.0.0.1"), "{message}");
        } else {
            assert!(message.contains("there is no document cache"), "{message}");
        }
    }
    assert!(!format!("{shelf:?}").contains("hunter2"));
}
