//! The status of a pod, as a kubelet writes it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodIP, PodSpec, PodStatus, VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::conditions;
use super::pod::Place;
use super::stage::{BACKING_OFF, Exit, Kind, Way, Why, back_off_after, later};

/// The status that a pod has at this point of its way. What others wrote into it stays.
pub(super) fn render(pod: &Pod, place: Place<'_>, way: &Way, now: Timestamp) -> PodStatus {
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let mut status = pod.status.clone().unwrap_or_default();
    let ready = way.stage.kind == Kind::Running
        && place.behaviour.ready_after.is_some_and(|after| later(way.since, after) <= now);
    let look =
        Look { pod, way, ready, now, has_init: spec.init_containers.iter().flatten().next().is_some() };
    let old = std::mem::take(&mut status.container_statuses).unwrap_or_default();
    let mut containers: Vec<_> =
        spec.containers.iter().map(|one| look.regular(one, find(&old, one))).collect();
    containers.sort_by(|a, b| a.name.cmp(&b.name));
    status.container_statuses = Some(containers);
    let old = std::mem::take(&mut status.init_container_statuses).unwrap_or_default();
    let init: Vec<_> =
        spec.init_containers.iter().flatten().map(|one| look.init(one, find(&old, one))).collect();
    status.init_container_statuses = (!init.is_empty()).then_some(init);

    status.start_time.get_or_insert_with(|| seconds(now));
    status.observed_generation = pod.metadata.generation;
    addresses(&mut status, spec, place, way.stage.kind);
    let phase = match way.stage.kind {
        Kind::Arriving | Kind::Creating => "Pending",
        Kind::Running | Kind::BackingOff => "Running",
        Kind::Finished => match way.exit() {
            Some(Exit { code: 0, .. }) => "Succeeded",
            Some(_) => "Failed",
            None => status.phase.as_deref().unwrap_or("Failed"),
        },
    };
    status.phase = Some(phase.to_owned());
    if way.exit().is_some_and(|exit| exit.why == Why::DeadlineExceeded) {
        status.reason = Some("DeadlineExceeded".into());
        status.message = Some("Pod was active on the node longer than the specified deadline".into());
    }
    status.conditions = Some(conditions::render(pod, spec, &status, way.stage.kind, now));
    status
}

/// A pod as messages name it.
pub(super) fn full_name(pod: &Pod) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let meta = &pod.metadata;
    format!("{}_{}({})", part(&meta.name), part(&meta.namespace), part(&meta.uid))
}

/// Kubernetes keeps whole seconds in a pod's status.
pub(super) fn seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

/// Whether an init container stays beside the others.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

struct Look<'a> {
    pod: &'a Pod,
    way: &'a Way,
    ready: bool,
    now: Timestamp,
    has_init: bool,
}

impl Look<'_> {
    fn regular(&self, container: &Container, old: Option<&ContainerStatus>) -> ContainerStatus {
        let restarts = self.way.stage.restarts;
        let mut status = self.base(container, old, restarts);
        if let Some(exit) = self.way.exit()
            && self.way.stage.kind != Kind::Finished
        {
            let terminated = self.terminated(container, old, exit);
            status.last_state =
                Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() });
        }
        let state = match self.way.stage.kind {
            Kind::Arriving | Kind::Creating => {
                waiting(if self.has_init { "PodInitializing" } else { "ContainerCreating" }, None)
            }
            Kind::Running => self.running(container, old, restarts),
            Kind::BackingOff => waiting(BACKING_OFF, Some(self.back_off_message(container))),
            Kind::Finished => self.finished(container, old),
        };
        self.give_state(&mut status, container, state, self.ready);
        status
    }

    fn init(&self, container: &Container, old: Option<&ContainerStatus>) -> ContainerStatus {
        let restarts = old.map_or(0, |old| old.restart_count);
        let mut status = self.base(container, old, restarts);
        let state = match self.way.stage.kind {
            Kind::Arriving | Kind::Creating => waiting("PodInitializing", None),
            Kind::Running | Kind::BackingOff if is_sidecar(container) => self.running(container, old, 0),
            Kind::Finished if is_sidecar(container) => self.finished(container, old),
            Kind::Running | Kind::BackingOff | Kind::Finished => match ended(old) {
                Some(_) => old.and_then(|old| old.state.clone()).unwrap_or_default(),
                None => {
                    let exit = Exit { code: 0, why: Why::ByItself };
                    let terminated = self.terminated(container, old, exit);
                    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
                }
            },
        };
        let is_ready = if is_sidecar(container) { self.ready } else { state.terminated.is_some() };
        self.give_state(&mut status, container, state, is_ready);
        status
    }

    /// What a container's status says in every state.
    fn base(&self, container: &Container, old: Option<&ContainerStatus>, restarts: i32) -> ContainerStatus {
        let mounts = container.volume_mounts.iter().flatten().map(|mount| VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: mount.read_only,
            recursive_read_only: (mount.read_only == Some(true)).then(|| "Disabled".to_owned()),
            ..VolumeMountStatus::default()
        });
        let mounts: Vec<_> = mounts.collect();
        ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            restart_count: restarts,
            last_state: old.and_then(|old| old.last_state.clone()),
            volume_mounts: (!mounts.is_empty()).then_some(mounts),
            ..ContainerStatus::default()
        }
    }

    fn give_state(
        &self,
        status: &mut ContainerStatus,
        container: &Container,
        state: ContainerState,
        ready: bool,
    ) {
        let is_running = state.running.is_some();
        status.ready = ready && (is_running || state.terminated.is_some());
        status.started = Some(is_running);
        if state.waiting.as_ref().and_then(|waiting| waiting.reason.as_deref()) == Some(BACKING_OFF)
            || state.waiting.is_none()
        {
            status.image_id = image_id(&status.image);
            status.container_id = Some(self.container_id(container, status.restart_count));
        }
        if is_running && let Some(resources) = &container.resources {
            status.allocated_resources = resources.requests.clone();
            status.resources = Some(resources.clone());
        }
        status.state = Some(state);
    }

    fn running(&self, container: &Container, old: Option<&ContainerStatus>, restarts: i32) -> ContainerState {
        let id = self.container_id(container, restarts);
        let same = old.filter(|old| old.container_id.as_ref() == Some(&id));
        let started = same.and_then(started_at).unwrap_or_else(|| seconds(self.way.since));
        ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(started) }),
            ..ContainerState::default()
        }
    }

    fn finished(&self, container: &Container, old: Option<&ContainerStatus>) -> ContainerState {
        if let (Some(old), true) = (old, ended(old).is_some()) {
            return old.state.clone().unwrap_or_default();
        }
        let exit = self.way.exit().unwrap_or(Exit { code: 137, why: Why::Deleted });
        let terminated = self.terminated(container, old, exit);
        ContainerState { terminated: Some(terminated), ..ContainerState::default() }
    }

    /// How a container that ran until now ended.
    fn terminated(
        &self,
        container: &Container,
        old: Option<&ContainerStatus>,
        exit: Exit,
    ) -> ContainerStateTerminated {
        let restarts = old.map_or(0, |old| old.restart_count);
        let started = old.and_then(started_at).unwrap_or_else(|| seconds(self.now));
        ContainerStateTerminated {
            exit_code: exit.code,
            reason: Some(if exit.code == 0 { "Completed" } else { "Error" }.into()),
            started_at: Some(started),
            finished_at: Some(seconds(self.now)),
            container_id: Some(self.container_id(container, restarts)),
            ..ContainerStateTerminated::default()
        }
    }

    fn back_off_message(&self, container: &Container) -> String {
        let pause = back_off_after(self.way.stage.restarts).as_secs();
        let pause = match (pause / 60, pause % 60) {
            (0, seconds) => format!("{seconds}s"),
            (minutes, seconds) => format!("{minutes}m{seconds}s"),
        };
        format!("back-off {pause} restarting failed container={} pod={}", container.name, full_name(self.pod))
    }

    fn container_id(&self, container: &Container, restarts: i32) -> String {
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        format!("containerd://{}", digest(&[uid, &container.name, &restarts.to_string()]))
    }
}

fn addresses(status: &mut PodStatus, spec: &PodSpec, place: Place<'_>, kind: Kind) {
    status.host_ip = place.host.first().cloned();
    let hosts: Vec<_> = place.host.iter().map(|ip| HostIP { ip: ip.clone() }).collect();
    status.host_ips = (!hosts.is_empty()).then_some(hosts);
    let has = status.pod_ips.as_ref().is_some_and(|ips| !ips.is_empty());
    if has {
        return;
    }
    let given: Vec<String> = if spec.host_network == Some(true) {
        place.host.to_vec()
    } else if matches!(kind, Kind::Running | Kind::BackingOff) {
        place.addresses.iter().map(|address| address.to_string()).collect()
    } else {
        return;
    };
    status.pod_ip = given.first().cloned();
    status.pod_ips = (!given.is_empty()).then(|| given.into_iter().map(|ip| PodIP { ip }).collect());
}

fn find<'a>(statuses: &'a [ContainerStatus], container: &Container) -> Option<&'a ContainerStatus> {
    statuses.iter().find(|status| status.name == container.name)
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn started_at(status: &ContainerStatus) -> Option<Time> {
    status.state.as_ref()?.running.as_ref()?.started_at.clone()
}

fn ended(status: Option<&ContainerStatus>) -> Option<&ContainerStateTerminated> {
    status?.state.as_ref()?.terminated.as_ref()
}

fn image_id(image: &str) -> String {
    let name = image.split('@').next().unwrap_or(image);
    let tag = name.rfind(':').filter(|colon| !name[*colon..].contains('/'));
    let name = &name[..tag.unwrap_or(name.len())];
    let name = match name.split_once('/') {
        None => format!("docker.io/library/{name}"),
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
    };
    match image.split_once('@') {
        Some((_, digest)) => format!("{name}@{digest}"),
        None => format!("{name}@sha256:{}", digest(&[image])),
    }
}

/// 64 hexadecimal digits that look like a hash and are always the same for the same words.
pub(super) fn digest(words: &[&str]) -> String {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for byte in words.join("\0").bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut text = String::with_capacity(64);
    for _ in 0..4 {
        // One round of splitmix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        text.push_str(&format!("{:016x}", mixed ^ (mixed >> 31)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_get_the_names_that_runtimes_give_them() {
        for (image, name) in [
            ("nginx", "docker.io/library/nginx@sha256:"),
            ("nginx:1.27", "docker.io/library/nginx@sha256:"),
            ("org/app:v1", "docker.io/org/app@sha256:"),
            ("localhost:5000/app:v1", "localhost:5000/app@sha256:"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause@sha256:"),
            ("ghcr.io/a/b@sha256:0123", "ghcr.io/a/b@sha256:0123"),
        ] {
            assert!(image_id(image).starts_with(name), "{}", image_id(image));
        }
        assert_ne!(image_id("nginx:1"), image_id("nginx:2"));
    }
}
