{{- define "mgw.name" -}}
{{- if contains "mgw" .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-mgw" .Release.Name | trunc 63 | trimSuffix "-" }}{{ end -}}
{{- end }}
{{- define "mgw.selector" -}}
app.kubernetes.io/name: mgw
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "mgw.labels" -}}
{{ include "mgw.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}
{{- define "mgw.config" -}}
listen: ":8787"
{{ .Values.config }}
{{- end }}
