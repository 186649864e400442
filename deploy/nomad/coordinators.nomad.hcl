# Three coordinators on three machines. PostgreSQL and the bucket are outside of Nomad.
# Secrets: nomad var put nomad/jobs/buildpool postgres_password=… access_key=… secret_key=…
variable "image" {
  type        = string
  description = "Image with the program, as deploy/compose/Dockerfile makes it"
}

variable "domain" {
  type        = string
  description = "Domain in which each machine has its Nomad name"
}

job "buildpool" {
  type = "service"

  group "coordinators" {
    count = 3

    constraint {
      distinct_hosts = true
    }

    network {
      port "links" {
        static = 7420
      }
    }

    # One at a time, so that there is always a leader or a standby.
    update {
      max_parallel     = 1
      min_healthy_time = "10s"
    }

    service {
      name     = "buildpool"
      port     = "links"
      provider = "nomad"

      check {
        type            = "http"
        protocol        = "https"
        path            = "/readyz"
        interval        = "5s"
        timeout         = "2s"
        tls_skip_verify = true
      }
    }

    task "coordinator" {
      driver       = "docker"
      kill_timeout = "30s"

      config {
        image        = var.image
        args         = ["coordinator", "--config", "${NOMAD_TASK_DIR}/coordinator.toml", "--data-dir", "${NOMAD_ALLOC_DIR}/data/buildpool"]
        network_mode = "host"
        volumes      = ["/etc/buildpool/tls:/etc/buildpool/tls:ro"]
      }

      template {
        destination = "local/coordinator.toml"
        data        = <<EOF
listen = "0.0.0.0:7420"
tls_cert = "/etc/buildpool/tls/certificate.pem"
tls_key = "/etc/buildpool/tls/key.pem"
advertise = "wss://{{ env "node.unique.name" }}.${var.domain}:7420"

[store]
url = "postgres://buildpool@postgres.${var.domain}/buildpool?sslmode=require"
objects = "s3://builds/pool"
password_file = "{{ env "NOMAD_SECRETS_DIR" }}/postgres-password"
EOF
      }

      template {
        destination = "secrets/postgres-password"
        perms       = "600"
        data        = "{{ with nomadVar \"nomad/jobs/buildpool\" }}{{ .postgres_password }}{{ end }}"
      }

      template {
        destination = "secrets/bucket.env"
        env         = true
        data        = <<EOF
{{ with nomadVar "nomad/jobs/buildpool" }}AWS_ACCESS_KEY_ID={{ .access_key }}
AWS_SECRET_ACCESS_KEY={{ .secret_key }}{{ end }}
EOF
      }

      resources {
        cpu    = 1000
        memory = 1024
      }
    }
  }
}
