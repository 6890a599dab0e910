{{- define "weir-csi.labels" -}}
app.kubernetes.io/name: weir-csi
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "weir-csi.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- define "weir-csi.plugin" -}}
{{ .Values.kubeletDir }}/plugins/csi.weir
{{- end }}
