{{/* What marks the objects of one role. */}}
{{- define "koinon.marks" -}}
app.kubernetes.io/name: koinon
app.kubernetes.io/component: {{ .role }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{/*
The Deployment of one role, what keeps one of its pods through a drain, and who reaches them. Takes a dict:
  root       the chart's own context
  role       what `koinon run` is told
  namespace  where its account is
  flags      what this role needs to be told, beside what all are
  secrets    Secrets with a kubeconfig, by the name of the folder they are mounted at
  token      whether it uses the account it runs as
  webhook    whether the API server calls it
*/}}
{{- define "koinon.role" -}}
{{- $values := .root.Values -}}
{{- $own := index $values .role -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: koinon-{{ .role }}
  namespace: {{ .namespace }}
  labels:
    {{- include "koinon.marks" . | nindent 4 }}
    app.kubernetes.io/managed-by: {{ .root.Release.Service }}
    app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
spec:
  replicas: {{ $values.replicas }}
  selector:
    matchLabels:
      {{- include "koinon.marks" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "koinon.marks" . | nindent 8 }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: koinon-{{ .role }}
      automountServiceAccountToken: {{ .token }}
      # Longer than it takes to give a Lease back.
      terminationGracePeriodSeconds: 30
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: koinon
          image: "{{ $values.image.repository }}:{{ $values.image.tag | default .root.Chart.AppVersion }}{{ with $values.image.digest }}@{{ . }}{{ end }}"
          imagePullPolicy: {{ $values.image.pullPolicy }}
          args:
            - run
            - {{ .role }}
            - --log-format={{ $values.logFormat }}
            - "--metrics={{ $values.listen }}:{{ $values.metricsPort }}"
            {{- range .flags }}
            - {{ . | quote }}
            {{- end }}
            {{- range $own.arguments }}
            - {{ . | quote }}
            {{- end }}
          ports:
            - name: metrics
              containerPort: {{ $values.metricsPort }}
          livenessProbe:
            httpGet:
              path: /healthz
              port: metrics
          readinessProbe:
            httpGet:
              path: /readyz
              port: metrics
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          {{- with $values.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with .secrets }}
          volumeMounts:
            {{- range $folder, $secret := . }}
            - name: {{ $folder }}
              mountPath: /etc/koinon/{{ $folder }}
              readOnly: true
            {{- end }}
          {{- end }}
      {{- with .secrets }}
      volumes:
        {{- range $folder, $secret := . }}
        - name: {{ $folder }}
          secret:
            secretName: {{ $secret }}
        {{- end }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- if and $values.podDisruptionBudget (gt (int $values.replicas) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: koinon-{{ .role }}
  namespace: {{ .namespace }}
  labels:
    {{- include "koinon.marks" . | nindent 4 }}
spec:
  minAvailable: 1
  selector:
    matchLabels:
      {{- include "koinon.marks" . | nindent 6 }}
{{- end }}
{{- if $values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: koinon-{{ .role }}
  namespace: {{ .namespace }}
  labels:
    {{- include "koinon.marks" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "koinon.marks" . | nindent 6 }}
  policyTypes: [Ingress]
  {{- if or $values.networkPolicy.metricsFrom .webhook }}
  ingress:
    {{- with $values.networkPolicy.metricsFrom }}
    - from:
        {{- toYaml . | nindent 8 }}
      ports:
        - port: metrics
    {{- end }}
    {{- if .webhook }}
    - ports:
        - port: 9443
      {{- with $values.networkPolicy.webhookFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
  {{- else }}
  ingress: []
  {{- end }}
{{- end }}
{{- end }}
