//! Addresses that are listened at, sockets that are taken over, and those that cannot be.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use super::*;

fn bind(address: &Address) -> Result<Listener, ListenError> {
    Listener::bind(address, &ListenOptions::default()).map(|mut all| all.remove(0))
}

#[test]
fn an_address_of_a_name_that_the_machine_cannot_have_is_left_out() {
    for (errno, left_out) in
        [(Errno::ADDRNOTAVAIL, true), (Errno::AFNOSUPPORT, true), (Errno::ADDRINUSE, false)]
    {
        let error = ListenError::System("[::1]:80".to_owned(), errno.into(), "");
        assert_eq!(error.is_elsewhere(), left_out, "{error}");
    }
}

#[test]
fn who_gets_no_listener_hears_of_the_way_out() {
    for (errno, way_out) in [
        (Errno::ADDRINUSE, "choose another port"),
        (Errno::ACCESS, "need root or CAP_NET_BIND_SERVICE"),
        (Errno::AFNOSUPPORT, "listen on one of IPv4"),
    ] {
        let hint = hint(&errno.into());
        assert!(hint.contains(way_out), "{hint}");
    }
}

#[test]
fn a_name_is_listened_on_at_each_of_its_addresses_that_are_here() {
    let bind = |found: &[&str]| {
        let found = found.iter().map(|text| text.parse().unwrap());
        let others = ["127.0.0.9:80".parse().unwrap()].into();
        Listener::bind_name(&Address::Host("shop.example".into(), 0), found, &others, 5)
    };
    let all = bind(&["127.0.0.1:0", "203.0.113.1:0", "127.0.0.1:0", "127.0.0.2:0"]).unwrap();
    let port = &all[0].origin.port;
    let shown: Vec<_> = all.iter().map(|listener| listener.url.clone()).collect();
    assert_eq!(shown, ["127.0.0.1", "127.0.0.2"].map(|ip| format!("http://{ip}:{port}")));
    for (found, words) in [
        (&["203.0.113.1:0", "203.0.113.2:0"][..], "cannot listen on 203.0.113.1:0: "),
        (&[], "cannot listen on shop.example:0: the host name has no address"),
        (&["127.0.0.3:0", &format!("127.0.0.1:{port}")], "-"),
        (&["203.0.113.1:80", "127.0.0.9:80"], "-"),
    ] {
        let told = bind(found).err().map_or("-".to_owned(), |error| error.to_string());
        assert!(told.starts_with(words), "{found:?}: {told}");
    }
    let taken = bind(&[&format!("127.0.0.3:{port}"), &format!("127.0.0.2:{port}")]).unwrap_err().to_string();
    assert!(taken.contains(": Address already in use"), "{taken}");
}

#[test]
fn an_address_that_a_name_has_is_listened_on_as_is_said_of_it() {
    let free = |ip: &str| bind(&format!("{ip}:0").parse().unwrap()).unwrap().origin.port.clone();
    let port = free("127.0.0.1");
    let pages = ListenOptions { serves: Serves::Pages, ..ListenOptions::default() };
    let (name, itself) =
        (Address::Host("localhost".into(), port.parse().unwrap()), format!("127.0.0.1:{port}"));
    let by_name = || (name.clone(), ListenOptions::default());
    let by_itself = || (itself.parse().unwrap(), pages.clone());
    for (order, at) in [([by_name(), by_itself()], 1), ([by_itself(), by_name()], 0)] {
        let all = Listener::bind_all(&order).unwrap();
        let url = format!("http://{itself}");
        let of = |listeners: &[Listener]| listeners.iter().filter(|it| it.url == url).count();
        assert_eq!((of(&all[at]), of(&all[1 - at])), (1, 0));
        assert_eq!(all[at][0].origin.serves, Serves::Pages);
    }
}

#[test]
fn of_two_names_with_one_address_the_first_has_it() {
    let port = bind(&"127.0.0.1:0".parse().unwrap()).unwrap().origin.port.parse().unwrap();
    // One that no list of hosts need have.
    let names =
        ["localhost", "0x7f.1"].map(|name| (Address::Host(name.into(), port), ListenOptions::default()));
    let all = Listener::bind_all(&names).unwrap();
    assert!(!all[0].is_empty() && all[1].is_empty());
}

#[test]
fn every_address_is_not_half_of_them_where_another_server_has_the_others() {
    let Ok(one) = bind(&"[::1]:0".parse().unwrap()) else { return };
    let told = bind(&Address::Any(one.origin.port.parse().unwrap())).unwrap_err().to_string();
    assert!(told.contains("[::]:") && told.contains("another server has it"), "{told}");
}

#[test]
fn a_wildcard_is_shown_by_a_url_that_works_and_by_what_it_stands_for() {
    for (text, url, reach) in [
        ("127.0.0.1:0", "http://127.0.0.1:PORT", ""),
        ("0.0.0.0:0", "http://127.0.0.1:PORT", " (every IPv4 address, 0.0.0.0:PORT)"),
        ("[::]:0", "http://127.0.0.1:PORT", " (every address, [::]:PORT)"),
        (":0", "http://127.0.0.1:PORT", " (every address, [::]:PORT)"),
        ("[::1]:0", "http://[::1]:PORT", ""),
    ] {
        // A machine without IPv6 has less to show.
        let Ok(listener) = bind(&text.parse().unwrap()) else { continue };
        let named = |text: &str| text.replace("PORT", &listener.origin.port);
        assert_eq!(listener.url, named(url), "{text}");
        let shown = listener.share().unwrap().shown();
        let without_v6 = shown.contains("every IPv4 address") && text == ":0";
        assert!(without_v6 || shown == named(&format!("{url}{reach}")), "{text}: {shown}");
    }
}

#[test]
fn an_adopted_socket_of_ipv6_alone_is_not_shown_by_an_address_of_ipv4() {
    let Ok(socket) = Socket::new(Domain::IPV6, Type::STREAM, None) else { return };
    socket.set_only_v6(true).unwrap();
    let any: SocketAddr = (Ipv6Addr::UNSPECIFIED, 0).into();
    if socket.bind(&any.into()).is_err() {
        return;
    }
    let listener = Listener::adopt(socket.into(), &ListenOptions::default()).unwrap();
    let port = &listener.origin.port;
    assert_eq!(listener.shown(), format!("http://[::1]:{port} (every IPv6 address, [::]:{port})"));
}

#[test]
fn the_kernel_asks_clients_that_say_nothing_whether_they_are_there() {
    let asks_after = |listener: &Listener| {
        let address = SockRef::from(&listener.socket).local_addr().unwrap();
        let client = Socket::from(std::net::TcpStream::connect(address.as_socket().unwrap()).unwrap());
        client.send(b"GET").unwrap();
        let accepted = loop {
            if let Ok(accepted) = rustix::net::accept(&listener.socket) {
                break Socket::from(accepted);
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        accepted.keepalive().unwrap().then(|| accepted.tcp_keepalive_time().unwrap().as_secs())
    };
    let asks = |socket: Socket| {
        SockRef::from(&socket).bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(8).unwrap();
        asks_after(&Listener::adopt(socket.into(), &ListenOptions::default()).unwrap())
    };
    assert_eq!(asks_after(&bind(&"127.0.0.1:0".parse().unwrap()).unwrap()), Some(120));
    let others = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    assert_eq!(asks(others()), Some(120));
    let socket = others();
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(Duration::from_secs(600))).unwrap();
    assert_eq!(asks(socket), Some(600), "as others have it");
}

#[test]
fn an_abstract_socket_has_no_file_whoever_bound_it() {
    let name = format!("howdah-test-{}", std::process::id());
    let address = Address::Abstract(name.clone());
    let listener = bind(&address).unwrap();
    let adopted =
        Listener::inherit(listener.socket().try_clone().unwrap(), &ListenOptions::default()).unwrap();
    for listener in [&listener, &adopted] {
        assert_eq!((listener.shown(), listener.path()), (address.to_string(), None));
    }
    let taken = bind(&address).unwrap_err().to_string();
    assert!(taken.contains(&format!("unix:@{name}")) && taken.contains("choose another name"), "{taken}");
    let long = bind(&Address::Abstract("x".repeat(108)));
    assert!(long.unwrap_err().to_string().contains("shorter"));
}

#[test]
fn whoever_has_connected_is_handed_over_at_the_end() {
    let listener = bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let accept = |listener: &Listener| rustix::net::accept(&listener.socket).is_ok();
    let accepts = |listener: &Listener| {
        let end = std::time::Instant::now() + Duration::from_millis(500);
        while !accept(listener) {
            if std::time::Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    };
    let address = ("127.0.0.1", listener.origin.port.parse().unwrap());
    let mut early = std::net::TcpStream::connect(address).unwrap();
    assert!(!accept(&listener), "it has said nothing");
    let share = listener.share().unwrap();
    share.see_out();
    assert!(listener.sees_out());
    std::io::Write::write_all(&mut early, b"G").unwrap();
    assert!(accepts(&listener), "the one that had connected");
    let _late = std::net::TcpStream::connect(address).unwrap();
    assert!(accepts(&listener), "one that connects now, whatever it says");

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.sock");
    let listener = bind(&Address::Unix(path.clone())).unwrap();
    let _early = UnixStream::connect(&path).unwrap();
    listener.see_out();
    assert!(UnixStream::connect(&path).is_err(), "nobody else");
    assert!(accepts(&listener) && !listener.sees_out());
}

#[test]
fn a_socket_file_that_another_server_has_made_since_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.sock");
    let bind = || bind(&Address::Unix(path.clone())).unwrap();
    let old = bind();
    // Something stands in between, so that the file system does not use the inode again.
    std::fs::rename(&path, directory.path().join("moved")).unwrap();
    let new = bind();
    old.share().unwrap().unlink();
    assert!(path.exists(), "the newer server's");
    assert!(!old.is_lost() && !new.is_lost(), "somebody answers there");
    new.unlink();
    assert!(!path.exists() && new.is_lost(), "its own");
}

#[test]
fn each_listener_has_options_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    for (name, options) in [
        ("a", ListenOptions { mode: Some(0o600), ..ListenOptions::default() }),
        (
            "b",
            ListenOptions {
                mode: Some(0o666),
                serves: Serves::Pages,
                backlog: 1,
                ..ListenOptions::default()
            },
        ),
    ] {
        let path = directory.path().join(name);
        let bound = Listener::bind(&Address::Unix(path.clone()), &options).unwrap().remove(0);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!((Some(mode), bound.origin.serves), (options.mode, options.serves), "{name}");
    }
}

#[test]
fn the_kernel_holds_as_many_connections_as_the_backlog_says_and_one() {
    let name = format!("howdah-backlog-{}", std::process::id());
    let connect = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None).unwrap();
        socket.connect(&SockAddr::unix(format!("\0{name}")).unwrap()).map(|()| socket)
    };
    let options = |backlog| ListenOptions { backlog, ..ListenOptions::default() };
    let bound = Listener::bind(&Address::Abstract(name.clone()), &options(2)).unwrap().remove(0);
    let first: Vec<_> = (0..5).map_while(|_| connect().ok()).collect();
    assert_eq!(first.len(), 3);
    Listener::inherit(bound.socket().try_clone().unwrap(), &ListenOptions::default()).unwrap();
    assert!(connect().is_err(), "whoever inherits it leaves it as it is");
    Listener::adopt(bound.socket().try_clone().unwrap(), &options(3)).unwrap();
    assert!(connect().is_ok(), "whoever adopts it says how many");
}

#[test]
fn a_unix_socket_of_a_server_that_was_killed_makes_room_and_one_that_is_used_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.sock");
    let address = Address::Unix(path.clone());
    let first = bind(&address).unwrap();
    let taken = bind(&address).unwrap_err().to_string();
    assert!(taken.ends_with("; another server answers there, stop that or choose another path"), "{taken}");
    drop(first);
    let second = bind(&address).unwrap();
    assert_eq!((second.path(), second.shown()), (Some(path.as_path()), format!("unix:{}", path.display())));
}

#[test]
fn what_is_in_the_way_and_what_is_missing_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let why = |address| bind(&address).unwrap_err().to_string();
    assert!(why(Address::Unix(file.clone())).contains("a file that is no socket is in the way"));
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    let long = why(Address::Unix(directory.path().join("x".repeat(108))));
    assert!(long.ends_with(" (108 bytes), choose a shorter one"), "{long}");
    let nowhere = why(Address::Unix(directory.path().join("no/app.sock")));
    assert!(nowhere.ends_with("; its directory does not exist"), "{nowhere}");
    let listener = bind(&Address::Host("127.0.0.1".to_owned(), 0)).unwrap();
    let port = listener.origin.port.parse().unwrap();
    let taken = why(Address::Host("127.0.0.1".to_owned(), port));
    assert!(taken.ends_with("; another server has it, stop that or choose another port"), "{taken}");
    for host in ["a b", "192.0.2.1"] {
        let elsewhere = why(Address::Host(host.to_owned(), 0));
        assert!(elsewhere.ends_with(NO_HOST), "{elsewhere}");
    }
}

#[test]
fn requests_hear_of_their_listener() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.sock");
    let host = bind(&Address::Host("127.0.0.1".to_owned(), 0)).unwrap();
    let any = bind(&Address::Any(0)).unwrap();
    let machine = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let unix = bind(&Address::Unix(path.clone())).unwrap();
    for (listener, name, port, path) in [
        (&host, "127.0.0.1".to_owned(), host.origin.port.as_str(), None),
        (&any, machine, any.origin.port.as_str(), None),
        (&unix, "localhost".to_owned(), "80", Some(path)),
    ] {
        let origin = &listener.origin;
        assert_eq!((&origin.name, origin.port.as_str(), &origin.path), (&name, port, &path));
        assert!(!origin.port.is_empty() && origin.port != "0" && origin.serves == Serves::Requests);
        let handle = || listener.socket().try_clone().unwrap();
        let adopted = Listener::adopt(handle(), &ListenOptions::default()).unwrap();
        assert_eq!(
            (&adopted.origin.name, &adopted.url, adopted.path()),
            (&name, &listener.url, path.as_deref())
        );
        let pages = ListenOptions { serves: Serves::Pages, ..ListenOptions::default() };
        let local = Listener::inherit(handle(), &pages).unwrap();
        let kept = (&local.origin.name, local.origin.port.as_str(), &local.origin.path);
        assert_eq!((kept, local.origin.serves), ((&name, port, &path), Serves::Pages));
    }
}

#[test]
fn what_is_no_listening_socket_is_not_adopted() {
    let file = tempfile::tempfile().unwrap();
    let why = Listener::adopt(file.into(), &ListenOptions::default()).unwrap_err().to_string();
    assert!(why.starts_with("cannot listen on an inherited socket: "), "{why}");
}

#[test]
fn shared_handles_lead_to_the_same_queue_of_connections() {
    let listener = bind(&Address::Host("127.0.0.1".to_owned(), 0)).unwrap();
    let shared = listener.share().unwrap();
    let local = |listener: &Listener| SockRef::from(&listener.socket).local_addr().unwrap().as_socket();
    assert_eq!((local(&shared), &shared.url), (local(&listener), &listener.url));
    assert!(shared.path().is_none());
    shared.unlink();
}
