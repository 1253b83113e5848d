//! `koinon join`, `unjoin` and `members`: who is in the federation.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use koinon_control::clock::age;
use koinon_fleet::ClusterId;
use koinon_fleet::membership::{
    self, Arrival, Candidate, Error, Joined, Left, Reach, Row, Scope, Terms, Whose,
};
use kube::Client;

use crate::access::Access;

/// Which API server is the federation's.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Federation {
    /// The kubeconfig of the federation [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context in it [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Join {
    /// The name of the member in the federation
    #[arg(value_parser = name)]
    name: ClusterId,
    #[command(flatten)]
    federation: Federation,
    /// The kubeconfig of the cluster that joins, of somebody who may do everything there
    #[arg(long, value_name = "FILE")]
    member_kubeconfig: PathBuf,
    /// The context in it [default: the current one]
    #[arg(long, value_name = "NAME")]
    member_context: Option<String>,
    /// The namespaces of the cluster in which the federation may write, as in 'team-*,shop': those that there are now
    /// [default: as before, and all of a new member]
    #[arg(long, value_name = "PATTERNS")]
    namespaces: Option<Scope>,
    /// Take the cluster from the federation that it is in, if that is lost: its tokens end
    #[arg(long)]
    take_over: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Unjoin {
    /// The name of the member in the federation
    name: String,
    #[command(flatten)]
    federation: Federation,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Members {
    #[command(flatten)]
    federation: Federation,
}

fn name(text: &str) -> Result<ClusterId, String> {
    ClusterId::new(text).map_err(|error| error.to_string())
}

pub(crate) async fn join(args: Join) -> anyhow::Result<()> {
    let federation = client(&args.federation).await?;
    let member = access(Some(&args.member_kubeconfig), args.member_context.as_deref()).await?;
    let place = member.place.clone();
    let terms = Terms { scope: args.namespaces, take_over: args.take_over };
    let candidate = Candidate::new(member.config)?.through(member.proxy).on(terms);
    let name = args.name;
    let progress = |step: &str| eprintln!("{step}");
    let arrival = Arrival::expect(&federation, &name).await?;
    let joined = membership::join(&federation, &name, &candidate, progress).await;
    let joined = joined.map_err(|error| match error {
        Error::Unreachable { .. } | Error::Asked { whose: Whose::Member(_), .. } | Error::Login(_) => {
            anyhow::anyhow!("{error}; the cluster that joins is {place}")
        }
        error => error.into(),
    })?;
    let reach = arrival.until_reached(joined == Joined::New, progress).await?;
    if let Reach::Away(why) = reach {
        anyhow::bail!(
            "cluster {name} is a member now, but the role that works with the federation does not reach it: {why}; see that \
             {} leads to it from where that role runs, then run this again",
            place.server()
        );
    }
    match joined {
        Joined::New => println!("cluster {name} joined"),
        Joined::Already => println!("cluster {name} is a member already; nothing changed"),
    }
    if reach == Reach::Unnoted {
        eprintln!("nobody works with the federation's members at the moment: koinon run workloads does");
    }
    Ok(())
}

pub(crate) async fn unjoin(args: Unjoin) -> anyhow::Result<()> {
    let federation = client(&args.federation).await?;
    let left = membership::leave(&federation, &args.name).await?;
    println!("cluster {} left; its workloads run on", args.name);
    let account = membership::rbac::NAME;
    match left {
        Left::Nothing => {}
        // It may have been taken over: what is deleted then is the other federation's.
        Left::Account(why) => eprintln!(
            "whether the federation's account is still in it is not known ({why}); if the cluster is in no other federation by \
             now, remove it there: kubectl delete clusterrolebinding {account}"
        ),
        Left::Others(why) => eprintln!("the ClusterRoleBinding {account} in it was left as it is: {why}"),
    }
    Ok(())
}

pub(crate) async fn members(args: Members) -> anyhow::Result<()> {
    let federation = client(&args.federation).await?;
    let now = koinon_context::wall_clock();
    let rows = membership::list(&federation, now).await?;
    if rows.is_empty() {
        println!("no members; try koinon join NAME --member-kubeconfig FILE");
        return Ok(());
    }
    print!("{}", table(&rows, now));
    for row in &rows {
        if let Some(error) = &row.error {
            eprintln!("{} at {}: {error}", row.name, row.server);
        }
    }
    Ok(())
}

/// The members as a table with columns as wide as they need to be.
fn table(rows: &[Row], now: Timestamp) -> String {
    let header = ["NAME", "ID", "STATUS", "VERSION", "NODES", "LEADER", "LAST SEEN"].map(str::to_owned);
    let lines: Vec<Vec<String>> =
        std::iter::once(header.to_vec()).chain(rows.iter().map(|row| line(row, now))).collect();
    crate::table::table(&lines)
}

fn line(row: &Row, now: Timestamp) -> Vec<String> {
    let or_dash = |text: Option<&String>| text.cloned().unwrap_or_else(|| "-".into());
    let seen = match (row.error.is_none(), row.last_seen) {
        (true, _) => "now".to_owned(),
        (false, Some(since)) => format!("{} ago", age(now.duration_since(since))),
        (false, None) => "unknown".to_owned(),
    };
    vec![
        row.name.clone(),
        or_dash(row.id.as_ref()),
        row.phase.as_str().to_owned(),
        or_dash(row.version.as_ref()),
        row.nodes.map_or_else(|| "-".into(), |nodes| nodes.to_string()),
        or_dash(row.leader.as_ref()),
        seen,
    ]
}

/// A client of the federation, whose failures say where it was looked for.
pub(crate) async fn client(federation: &Federation) -> anyhow::Result<Client> {
    access(federation.kubeconfig.as_deref(), federation.context.as_deref()).await?.telling_client()
}

async fn access(file: Option<&Path>, context: Option<&str>) -> anyhow::Result<Access> {
    let mut access = Access::of_kubeconfig(file, context).await?;
    // A command tells at once what is wrong instead of trying for minutes.
    access.config.connect_timeout = Some(std::time::Duration::from_secs(5));
    Ok(access)
}

#[cfg(test)]
mod tests {
    use koinon_fleet::Phase;

    use super::*;

    #[test]
    fn a_table_is_as_wide_as_it_needs_to_be() {
        let now = Timestamp::from_second(10_000).unwrap();
        let row = |name: &str, phase, error: Option<&str>, gone: Option<i64>| Row {
            name: name.into(),
            id: Some("u-1".into()),
            phase,
            error: error.map(Into::into),
            server: "https://10.0.0.1:6443".into(),
            version: Some("v1.36.3".into()),
            nodes: error.is_none().then_some(3),
            leader: None,
            last_seen: gone.map(|at| Timestamp::from_second(at).unwrap()),
        };
        let rows = [
            row("a", Phase::Reachable, None, None),
            row("eu-west", Phase::Unreachable, Some("no answer"), Some(9_000)),
        ];
        assert_eq!(
            table(&rows, now),
            "NAME      ID    STATUS        VERSION   NODES   LEADER   LAST SEEN\n\
             a         u-1   Reachable     v1.36.3   3       -        now\n\
             eu-west   u-1   Unreachable   v1.36.3   -       -        16m ago\n"
        );
    }
}
