{{- define "budgetd.name" -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- end }}

{{- define "budgetd.selector" -}}
app.kubernetes.io/name: budgetd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "budgetd.labels" -}}
{{ include "budgetd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The configuration as a file, with the certificate where there is one. */}}
{{- define "budgetd.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.tlsSecretName -}}
{{- $files := dict "cert_file" "/etc/budgetd/tls/tls.crt" "key_file" "/etc/budgetd/tls/tls.key" -}}
{{- $_ := set $config "tls" (merge $files (default dict $config.tls)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}

{{/* 90 % of the container's memory, as Go reads it. */}}
{{- define "budgetd.memory" -}}
{{- $limit := .Values.resources.limits.memory -}}
{{- $mebibytes := trimSuffix "Mi" $limit | int64 -}}
{{- if hasSuffix "Gi" $limit -}}{{- $mebibytes = mul (trimSuffix "Gi" $limit | int64) 1024 -}}{{- end -}}
{{- div (mul $mebibytes 9) 10 -}}MiB
{{- end }}

{{- define "budgetd.scheme" -}}{{ if .Values.tlsSecretName }}HTTPS{{ else }}HTTP{{ end }}{{- end }}
{{- define "budgetd.port" -}}{{ regexFind "[0-9]+$" . }}{{- end }}
