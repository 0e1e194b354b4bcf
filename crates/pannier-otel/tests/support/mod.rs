//! A receiver of OTLP over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

/// Accepts requests until the test ends and forwards their paths and bodies.
pub(crate) fn receive(listener: TcpListener) -> mpsc::Receiver<(String, Vec<u8>)> {
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let sender = sender.clone();
            std::thread::spawn(move || serve(connection.unwrap(), &sender));
        }
    });
    requests
}

fn serve(connection: TcpStream, sender: &mpsc::Sender<(String, Vec<u8>)>) {
    let mut reader = BufReader::new(connection);
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request).unwrap_or(0) == 0 {
            return;
        }
        let path = request.split(' ').nth(1).unwrap().to_owned();
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            let Some((name, value)) = header.trim().split_once(": ") else {
                break;
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let _ = sender.send((path, body));
        let response =
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        reader.get_mut().write_all(response.as_bytes()).unwrap();
    }
}
