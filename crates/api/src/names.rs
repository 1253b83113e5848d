//! The names that users script against, each in one place.

/// Who writes: the field manager of every server-side apply, and the value of [`MANAGED_BY`].
pub const MANAGER: &str = "koinon";

/// The label on everything that members have from the federation; its value is `"true"`.
pub const FEDERATED: &str = "koinon.dev/federated";

/// The label that says of an object of our own which program keeps it; its value is [`MANAGER`]. Earlier releases also marked
/// what members have from the federation by it, in place of [`FEDERATED`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Where our own objects live, in the federation and in members.
pub const SYSTEM_NAMESPACE: &str = "koinon-system";

/// Where the Leases are by which the replicas of a role take turns, beside those of other controllers: that namespace is
/// always there.
pub const LEASE_NAMESPACE: &str = "kube-system";

/// Federated ReplicaSets and Deployments.
pub mod workloads {
    /// The role's name: of its Lease, its account and its webhook.
    pub const ROLE: &str = "koinon-workloads";
    /// Annotation on a federated ReplicaSet: how to spread its replicas (see [`crate::preferences`]).
    pub const REPLICA_SET_PREFERENCES: &str = "federation.kubernetes.io/replica-set-preferences";
    /// Annotation on a federated Deployment: how to spread its replicas (see [`crate::preferences`]).
    pub const DEPLOYMENT_PREFERENCES: &str = "federation.kubernetes.io/deployment-preferences";
    /// Annotation that we write: where the replicas are (see [`crate::placement`]).
    pub const PLACEMENT: &str = "koinon.dev/placement";
    /// Annotation on a federated Deployment: the order in which clusters are updated.
    pub const CLUSTER_ORDER: &str = "koinon.dev/cluster-order";
    /// Annotation on a federated Deployment: how many clusters are updated at a time.
    pub const MAX_CONCURRENT_CLUSTERS: &str = "koinon.dev/max-concurrent-clusters";
    /// Annotation that we write on a federated Deployment: which clusters are being updated, and what they ran before.
    pub const ROLLOUT: &str = "koinon.dev/rollout";
    /// Annotation that we write on a member's Deployment: the name of the template that it was given. What a member makes of a
    /// template (its admission may add to it) then does not matter to whoever comes next.
    pub const TEMPLATE: &str = "koinon.dev/template";
    /// Annotation: who decides how many replicas a member runs; see [`REPLICAS_BY_MEMBER`].
    pub const REPLICAS: &str = "koinon.dev/replicas";
    /// The value of [`REPLICAS`] that leaves the count to the member, for its own autoscaler.
    pub const REPLICAS_BY_MEMBER: &str = "member";
    /// Annotation on a federated workload: whether an object of its name that a member has already is taken over: `always`,
    /// `if-same` or `never`.
    pub const TAKE_OVER: &str = "koinon.dev/take-over";
    /// Annotation on a federated workload: when its replicas leave a cluster that does not answer: `never` or `after=10m`.
    pub const FAILOVER: &str = "koinon.dev/failover";
    /// Annotation that we write on a federated Deployment: the number and the cause of each of its revisions, by template. What
    /// somebody writes on the ReplicaSets that mirror them does not count.
    pub const REVISIONS: &str = "koinon.dev/revisions";
    /// Annotation on a ReplicaSet that only mirrors what members run; its value is `"true"`.
    pub const SHADOW: &str = "koinon.dev/shadow";
    /// Annotation, set before a deletion: whether members' objects go too; see [`CASCADE_MEMBERS`].
    pub const CASCADE: &str = "koinon.dev/cascade";
    /// The value of [`CASCADE`] that deletes the members' objects as well.
    pub const CASCADE_MEMBERS: &str = "members";
    /// Annotation of Kubernetes on Deployments and their ReplicaSets: which revision it is.
    pub const REVISION: &str = "deployment.kubernetes.io/revision";
    /// Annotation of Kubernetes: what a change was for, as `kubectl rollout history` shows it.
    pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
    /// Annotation of kubectl: what was applied last.
    pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
}

/// Membership of a federation.
pub mod membership {
    /// The group of `Federation` and `ClusterClaim`.
    pub const GROUP: &str = "federation.antreaplus.tanzu.vmware.com";
    /// Their version.
    pub const VERSION: &str = "v1alpha1";
    /// Where claims, Federation and member Secrets live in a cluster of the `network` role; also where the
    /// leases of elections are.
    pub const NETWORK_NAMESPACE: &str = "antrea-plus-system";
    /// The group of `ClusterProfile`, the inventory for other tools.
    pub const PROFILE_GROUP: &str = "multicluster.x-k8s.io";
}

/// Services and virtual machines over clusters.
pub mod network {
    /// The group of `NativeService`.
    pub const NATIVE_SERVICE_GROUP: &str = "cloud.antreaplus.tanzu.vmware.com";
    /// Its version.
    pub const NATIVE_SERVICE_VERSION: &str = "v1alpha1";
    /// The group of `VirtualMachine`.
    pub const VIRTUAL_MACHINE_GROUP: &str = "runtime.cloud.antrea.io";
    /// Its version.
    pub const VIRTUAL_MACHINE_VERSION: &str = "v1alpha1";
    /// The domain under which keys are spelled, most trusted first: where two spellings of one key differ, the
    /// first of them counts.
    pub const DOMAINS: [&str; 5] = [
        "antreaplus.vmware-tanzu.com",
        "antreaplus.vmware.com",
        "antreaplus.tanzu-vmware.com",
        "antreaplus.tanzu.vmware.com",
        "antreaplus.vmware-tanzue.com",
    ];
    /// What stands before the domain in the annotation that joins a federated Service of the whole federation.
    pub const GLOBAL: &str = "svc.global.federated.";
    /// What stands before the domain in the annotation that joins a federated Service of a namespace.
    pub const NAMESPACED: &str = "svc.federated.";
    /// What stands before the domain in the tag that makes a virtual machine a Service.
    pub const VM_TAG: &str = "svc.";
    /// What stands before the domain in the tag with the ports of that Service.
    pub const VM_PORTS_TAG: &str = "ports.svc.";
    /// Annotation on every federated Service; what counts is that it is there.
    pub const FEDERATED_SERVICE: &str = "fed-svc.antreaplus.vmware-tanzu.com";
    /// Annotation on a Service of virtual machines; what counts is that it is there.
    pub const VM_SERVICE: &str = "vm.antreaplus.vmware-tanzu.com";
    /// Annotation on an EndpointSlice of a federated Service: the ID of the cluster it came from.
    pub const SOURCE_CLUSTER: &str = "cluster.federated.antreaplus.vmware-tanzu.com";
    /// Annotation on such an EndpointSlice: the Service there that it stands for.
    pub const SOURCE_SERVICE: &str = "koinon.dev/source-service";
    /// Who manages the EndpointSlices of federated Services, as Kubernetes' own label says.
    pub const SLICES_MANAGER: &str = "federation.koinon.dev";
    /// Who manages the EndpointSlices of Services of virtual machines.
    pub const VM_SLICES_MANAGER: &str = "vm.koinon.dev";
    /// The group of `ServiceExport` and `ServiceImport`.
    pub const MCS_GROUP: &str = "multicluster.x-k8s.io";
    /// Their version.
    pub const MCS_VERSION: &str = "v1beta1";
    /// Label on EndpointSlices: the import they belong to.
    pub const MCS_SERVICE_NAME: &str = "multicluster.kubernetes.io/service-name";
    /// Label on EndpointSlices: the cluster they came from.
    pub const MCS_SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";
    /// Annotation on a Service that stands behind a ServiceImport: its name.
    pub const SERVICE_IMPORT: &str = "koinon.dev/service-import";
    /// Annotation on a ServiceImport: which of its labels and annotations came from exports, so that those can be taken back.
    pub const EXPORTED: &str = "koinon.dev/exported";
    /// Who manages the EndpointSlices of imports.
    pub const IMPORT_SLICES_MANAGER: &str = "import.koinon.dev";
    /// Annotation on a federated Service: what we told ExternalDNS, so that a value by hand is told from ours.
    pub const EXTERNAL_DNS_WRITTEN: &str = "koinon.dev/external-dns";
}

/// Custom resources between cloud and robots.
pub mod sync {
    /// Annotation on a CRD: which side owns the spec.
    pub const SPEC_SOURCE: &str = "cr-syncer.cloudrobotics.com/spec-source";
    /// Annotation on a CRD: whether each robot sees only its own objects.
    pub const FILTER_BY_ROBOT_NAME: &str = "cr-syncer.cloudrobotics.com/filter-by-robot-name";
    /// Annotation on a CRD: which part of the status is copied.
    pub const STATUS_SUBTREE: &str = "cr-syncer.cloudrobotics.com/status-subtree";
    /// Label on an object: whose it is.
    pub const ROBOT_NAME: &str = "cloudrobotics.com/robot-name";
    /// Annotation on a CRD: how many deletions at once were meant.
    pub const CONFIRM_DELETES: &str = "koinon.dev/confirm-deletes";
}

/// Configuration from a leader to followers.
pub mod config {
    /// The group of `AMKOCluster`, `GSLBConfig` and `GlobalDeploymentPolicy`.
    pub const GROUP: &str = "amko.vmware.com";
    /// The version of `AMKOCluster` and `GSLBConfig`.
    pub const VERSION: &str = "v1alpha1";
    /// The version of `GlobalDeploymentPolicy`.
    pub const POLICY_VERSION: &str = "v1alpha2";
    /// Where all of them live.
    pub const NAMESPACE: &str = "avi-system";
    /// The Secret with the kubeconfig of all members.
    pub const MEMBERS_SECRET: &str = "gslb-config-secret";
    /// Its key.
    pub const MEMBERS_KEY: &str = "gslb-members";
    /// The field manager of what is federated.
    pub const MANAGER: &str = "AMKO-Federator";
}
