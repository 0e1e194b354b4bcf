//! The inspector page.

use crate::server::Server;

#[test]
fn the_page_is_served_without_data_and_for_this_host_only() {
    let server = Server::start(Default::default(), |_| {});
    let response = server.get("/", "");
    assert_eq!(response.status, 200);
    let head = response.head.to_lowercase();
    for header in ["content-type: text/html; charset=utf-8", "x-frame-options: deny"] {
        assert!(head.contains(header), "{head}");
    }
    assert!(response.body.starts_with("<!doctype html>"));
    assert!(response.body.contains("<script type=\"application/json\" id=\"data\"></script>"));
    assert_eq!(server.get("/", "Host: evil.example\r\n").status, 403);
    assert_eq!(server.post("/", "", "{}").status, 405);
}
