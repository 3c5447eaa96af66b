{{- define "schedulerd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- /* 52 characters: some names have a suffix, and 63 is the most that a label takes. */ -}}
{{- define "schedulerd.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "schedulerd.labels" -}}
{{- include "schedulerd.labelsWith" (list . dict) }}
{{- end }}

{{- /* The context, and labels that win over the common ones. */ -}}
{{- define "schedulerd.labelsWith" -}}
{{- $more := mergeOverwrite (deepCopy (default dict (index . 0).Values.commonLabels)) (default dict (index . 1)) }}
{{- with index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/name: {{ include "schedulerd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- with $more }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "schedulerd.selectorLabels" -}}
app.kubernetes.io/name: {{ include "schedulerd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: scheduler
{{- end }}

{{- /* Of the pods with these labels: over zones, and over the nodes of a zone. */ -}}
{{- define "schedulerd.spread" -}}
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
- topologyKey: {{ . }}
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- $ | nindent 6 }}
{{- end }}
{{- end }}

{{- define "schedulerd.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end -}}
{{- end }}

{{- define "schedulerd.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "schedulerd.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

{{- define "schedulerd.queuesConfigMap" -}}
{{ default (printf "%s-queues" (include "schedulerd.fullname" .)) .Values.queueFile.existingConfigMap }}
{{- end }}

{{- define "schedulerd.leaseName" -}}
{{ default (include "schedulerd.fullname" .) .Values.leaderElection.leaseName }}
{{- end }}

{{- /* "true" if PodGroups of coscheduling are to be watched. */ -}}
{{- define "schedulerd.podGroups" -}}
{{- if eq (toString .Values.gangs.podGroups) "auto" -}}
{{ if .Capabilities.APIVersions.Has "scheduling.x-k8s.io/v1alpha1/PodGroup" }}true{{ end }}
{{- else if eq (toString .Values.gangs.podGroups) "true" -}}
true
{{- end -}}
{{- end }}

{{- /* The newest version of FlowSchemas that the server has. Without a server, as in `helm template`, every version is
said to be there, and the version of Kubernetes decides. */ -}}
{{- define "schedulerd.flowSchemaVersion" -}}
{{- $isBefore := semverCompare ">=1.0.0-0 <1.29.0-0" .Capabilities.KubeVersion.Version -}}
{{- $found := "" -}}
{{- range list "v1" "v1beta3" "v1beta2" "v1beta1" -}}
{{- $version := printf "flowcontrol.apiserver.k8s.io/%s" . -}}
{{- if and (not $found) ($.Capabilities.APIVersions.Has $version) (not (and $isBefore (eq . "v1"))) -}}
{{- $found = $version -}}
{{- end -}}
{{- end -}}
{{ $found }}
{{- end }}

{{- /* The endpoints of a PodMonitor: the context, and the names of ports. */ -}}
{{- define "schedulerd.endpoints" -}}
{{- $monitor := (index . 0).Values.podMonitor }}
{{- range slice . 1 }}
- port: {{ . }}
  interval: {{ $monitor.interval }}
  {{- with $monitor.scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  {{- with $monitor.relabelings }}
  relabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $monitor.metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* "true" if PodMonitors are to be made. */ -}}
{{- define "schedulerd.podMonitor" -}}
{{- $has := .Capabilities.APIVersions.Has "monitoring.coreos.com/v1/PodMonitor" -}}
{{- with .Values.podMonitor }}{{ if and .enabled (or .force $has) }}true{{ end }}{{ end -}}
{{- end }}

{{- /* Egress to the API server, and to the DNS by which it may be named. */ -}}
{{- define "schedulerd.egress" -}}
{{- range .Values.networkPolicy.apiServers }}
- ports: [{protocol: TCP, port: {{ .port }}}]
  to: [{ipBlock: {cidr: {{ .cidr | quote }}}}]
{{- end }}
- ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
{{- end }}

{{- /* Values that fit each other, beyond what a schema can say. */ -}}
{{- define "schedulerd.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection.enabled) }}
{{- fail "replicas: more than 1 needs leaderElection.enabled: true, as all of them would schedule" }}
{{- end }}
{{- with .Values.leaderElection }}
{{- if and .enabled (ge (int .renewDeadlineSeconds) (int .leaseDurationSeconds)) }}
{{- fail (printf "leaderElection.renewDeadlineSeconds: %d must be less than leaseDurationSeconds: %d" (int .renewDeadlineSeconds) (int .leaseDurationSeconds)) }}
{{- end }}
{{- if and .enabled (ge (mulf .retryPeriodSeconds 1.2) (float64 .renewDeadlineSeconds)) }}
{{- fail (printf "leaderElection.retryPeriodSeconds: 1.2 times %v must be less than renewDeadlineSeconds: %d" .retryPeriodSeconds (int .renewDeadlineSeconds)) }}
{{- end }}
{{- end }}
{{- if has .Values.podSchedulerName .Values.schedulerNames }}
{{- fail (printf "podSchedulerName: %s is one of schedulerNames: schedulerd would wait for itself" .Values.podSchedulerName) }}
{{- end }}
{{- if and .Values.admission.enabled (eq .Values.admission.forgedUsers.refusedBy "policy") (not (include "schedulerd.admission.hasPolicies" .)) }}
{{- fail "admission.forgedUsers.refusedBy: policy needs ValidatingAdmissionPolicy, which Kubernetes has from 1.30 on" }}
{{- end }}
{{- if and .Values.admission.url (eq .Values.admission.certificates.source "cert-manager") (not .Values.admission.certificates.issuer) }}
{{- fail "admission.url: the certificate that the chart asks cert-manager for is that of the Service; set admission.certificates.source: own" }}
{{- end }}
{{- end }}
