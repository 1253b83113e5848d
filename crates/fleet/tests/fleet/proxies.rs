//! Members that are reached by a proxy, which a kubeconfig names.

use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use koinon_api::membership::KOINON_NAMESPACE;
use koinon_fleet::member::Credentials;
use koinon_fleet::membership::{join, list};
use koinon_fleet::{Fleet, Link, Metrics, Phase, Wanted};
use kube::Api;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Duration, Instant, sleep};

use crate::harness::id;
use crate::joining::Served;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Connect,
    Socks,
}

/// A proxy on this machine, and where it led to.
struct Proxy {
    url: String,
    led_to: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    async fn start(kind: Kind) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = match kind {
            Kind::Connect => "http",
            Kind::Socks => "socks5",
        };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let led_to: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = led_to.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let noted = noted.clone();
                tokio::spawn(async move {
                    // Who hangs up half-way is nobody's failure.
                    let _ = lead(kind, stream, &noted).await;
                });
            }
        });
        Proxy { url, led_to }
    }

    fn led_to(&self, served: &Served) -> bool {
        let target = served.config.cluster_url.authority().unwrap().to_string();
        self.led_to.lock().contains(&target)
    }
}

async fn lead(kind: Kind, mut stream: TcpStream, noted: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let target = match kind {
        Kind::Connect => {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await?);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let target = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().to_owned();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            target
        }
        Kind::Socks => {
            let mut hello = [0; 2];
            stream.read_exact(&mut hello).await?;
            let mut methods = vec![0; usize::from(hello[1])];
            stream.read_exact(&mut methods).await?;
            stream.write_all(&[5, 0]).await?;
            let mut request = [0; 4];
            stream.read_exact(&mut request).await?;
            let host = match request[3] {
                1 => {
                    let mut address = [0; 4];
                    stream.read_exact(&mut address).await?;
                    std::net::Ipv4Addr::from(address).to_string()
                }
                _ => {
                    let mut name = vec![0; usize::from(stream.read_u8().await?)];
                    stream.read_exact(&mut name).await?;
                    String::from_utf8(name).unwrap()
                }
            };
            let port = stream.read_u16().await?;
            stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
            format!("{host}:{port}")
        }
    };
    noted.lock().push(target.clone());
    let mut server = TcpStream::connect(target.parse::<SocketAddr>().map_err(std::io::Error::other)?).await?;
    copy_bidirectional(&mut stream, &mut server).await.map(drop)
}

/// The kubeconfig of a cluster that is reached by a proxy.
fn behind(served: &Served, proxy: &Proxy) -> String {
    let mut text = String::new();
    for line in served.kubeconfig.lines() {
        text.push_str(line);
        text.push('\n');
        if line.trim_start().starts_with("server:") {
            let indent = &line[..line.len() - line.trim_start().len()];
            text.push_str(&format!("{indent}proxy-url: {}\n", proxy.url));
        }
    }
    assert!(text.contains("proxy-url"), "{text}");
    text
}

#[tokio::test]
async fn a_member_is_reached_by_the_proxy_that_its_kubeconfig_names() {
    for kind in [Kind::Connect, Kind::Socks] {
        let (a, proxy) = (Served::start().await, Proxy::start(kind).await);
        let fleet = Fleet::new(koinon_fleet::Options::default(), Metrics::default(), Default::default());
        let link = Link::Login(Credentials::kubeconfig("", &behind(&a, &proxy)));
        fleet.set([(id("a"), Wanted { link, uid: None })].into()).await;
        let start = Instant::now();
        while !fleet.get("a").unwrap().is_reachable() {
            let state = fleet.get("a").unwrap().state();
            assert!(start.elapsed() < Duration::from_secs(60), "{kind:?}: {state:?}");
            sleep(Duration::from_millis(20)).await;
        }
        assert!(proxy.led_to(&a), "{kind:?}");
        a.stop().await;
    }
}

#[tokio::test]
async fn joining_keeps_the_proxy_that_leads_to_a_cluster() {
    let (federation, a, proxy) =
        (Served::start().await, Served::start().await, Proxy::start(Kind::Connect).await);
    let candidate = a.candidate().through(Some(proxy.url.clone()));
    join(&federation.client, &id("a"), &candidate, |_| {}).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(federation.client.clone(), KOINON_NAMESPACE);
    let kept = secrets.get("member-a").await.unwrap().data.unwrap();
    assert!(String::from_utf8_lossy(&kept["kubeconfig"].0).contains(&proxy.url), "{kept:?}");
    proxy.led_to.lock().clear();
    let rows = list(&federation.client, koinon_apiserver::context::wall_clock()).await.unwrap();
    assert_eq!(rows[0].phase, Phase::Reachable, "{rows:?}");
    assert!(proxy.led_to(&a));
}
