{{- /* All of the admission webhooks. */ -}}
{{- define "schedulerd.admission.fullname" -}}
{{ include "schedulerd.fullname" . }}-admission
{{- end }}

{{- define "schedulerd.admission.selectorLabels" -}}
app.kubernetes.io/name: {{ include "schedulerd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: admission
{{- end }}

{{- define "schedulerd.admission.serviceAccountName" -}}
{{- with .Values.admission.serviceAccount -}}
{{ ternary (default (include "schedulerd.admission.fullname" $) .name) (default "default" .name) .create }}
{{- end -}}
{{- end }}

{{- /* The Secret with tls.crt, tls.key and ca.crt, of webhooks and daemon. */ -}}
{{- define "schedulerd.admission.secret" -}}
{{ include "schedulerd.admission.fullname" . }}-tls
{{- end }}

{{- define "schedulerd.admission.host" -}}
{{ include "schedulerd.admission.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end }}

{{- /* Where the daemon tells the impact of a queue file: that of the leader. */ -}}
{{- define "schedulerd.daemonHost" -}}
{{ include "schedulerd.fullname" . }}{{ if .Values.leaderElection.enabled }}-leader{{ end }}.{{ .Release.Namespace }}.svc
{{- end }}

{{- /* "true" if the daemon has an address for the webhooks. */ -}}
{{- define "schedulerd.impact" -}}
{{ if and .Values.admission.enabled .Values.admission.impact.enabled }}true{{ end }}
{{- end }}

{{- /* "true" if the server has ValidatingAdmissionPolicy and matchConditions, as Kubernetes has from 1.30 on. `helm
template` knows the version alone. */ -}}
{{- define "schedulerd.admission.hasPolicies" -}}
{{- $has := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
{{ if or $has (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) }}true{{ end }}
{{- end }}

{{- /* "true" if the API server itself refuses forged users of pods and of Kubernetes' own kinds. */ -}}
{{- define "schedulerd.admission.usesPolicy" -}}
{{- $by := .Values.admission.forgedUsers.refusedBy -}}
{{- if or (eq $by "policy") (and (eq $by "auto") (include "schedulerd.admission.hasPolicies" .)) }}true{{ end }}
{{- end }}

{{- /* Never touched, whatever is set: here, so that it does not depend on the webhooks, and again in the webhooks. */ -}}
{{- define "schedulerd.admission.otherNamespaces" -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ concat (list "kube-system" .Release.Namespace) .Values.admission.excludedNamespaces | uniq | toJson }}
{{- end }}

{{- /* Pods, and the subresources that carry metadata of a pod: a status is stored with the annotations of what was sent, and
a Binding gives its own to the pod. `. 0`: bindings too; without conditions, every binding would be asked about. */ -}}
{{- define "schedulerd.admission.podChanges" -}}
- apiGroups: [""]
  apiVersions: [v1]
  resources: [pods]
  operations: [CREATE, UPDATE]
  scope: Namespaced
- apiGroups: [""]
  apiVersions: [v1]
  resources: [pods/status]
  operations: [UPDATE]
  scope: Namespaced
{{- if index . 0 }}
- apiGroups: [""]
  apiVersions: [v1]
  resources: [pods/binding, bindings]
  operations: [CREATE]
  scope: Namespaced
{{- end }}
{{- end }}

{{- /* Kubernetes' own kinds from which controllers make pods. */ -}}
{{- define "schedulerd.admission.kinds" -}}
- apiGroups: [""]
  apiVersions: [v1]
  resources: [replicationcontrollers]
  operations: [CREATE, UPDATE]
  scope: Namespaced
- apiGroups: [apps]
  apiVersions: ["*"]
  resources: [deployments, replicasets, statefulsets, daemonsets]
  operations: [CREATE, UPDATE]
  scope: Namespaced
- apiGroups: [batch]
  apiVersions: ["*"]
  resources: [jobs, cronjobs]
  operations: [CREATE, UPDATE]
  scope: Namespaced
{{- end }}

{{- /* Kinds that the cluster does not have do no harm. */ -}}
{{- define "schedulerd.admission.customKinds" -}}
{{- $groups := dict }}
{{- range .Values.admission.customResources }}
{{- $_ := set $groups .group (append (default list (get $groups .group)) .resource | uniq) }}
{{- end }}
{{- range $group, $resources := $groups }}
- apiGroups: [{{ $group }}]
  apiVersions: ["*"]
  resources: {{ $resources | toJson }}
  operations: [CREATE, UPDATE]
  scope: Namespaced
{{- end }}
{{- end }}

{{- define "schedulerd.admission.client" -}}
admissionReviewVersions: [v1]
clientConfig:
  {{- with .root.Values.admission.url }}
  url: {{ printf "%s/%s" . $.path | quote }}
  {{- else }}
  service:
    name: {{ include "schedulerd.admission.fullname" .root }}
    namespace: {{ .root.Release.Namespace }}
    port: 443
    path: /{{ .path }}
  {{- end }}
sideEffects: None
matchPolicy: Equivalent
timeoutSeconds: {{ .seconds }}
{{- end }}

{{- define "schedulerd.admission.annotations" -}}
{{- if eq .Values.admission.certificates.source "cert-manager" }}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "schedulerd.admission.fullname" . }}
{{- end }}
{{- end }}
