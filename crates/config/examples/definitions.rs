//! Prints the definitions of this role as one list, for `kubectl apply -f -`.

fn main() {
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": koinon_config::crds()});
    println!("{list}");
}
