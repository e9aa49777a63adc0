#include "engines/kubernetes/protocol/access/exec_credential.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "engines/kubernetes/protocol/access/base64.h"
#include "engines/kubernetes/protocol/objects/object_fields.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr std::string_view kVersion = "client.authentication.k8s.io/v1";

}  // namespace

std::string ExecInfo(const Kubeconfig& config, const std::string& certificate_authority) {
  nlohmann::ordered_json info = {
      {"apiVersion", kVersion}, {"kind", "ExecCredential"}, {"spec", {{"interactive", false}}}};
  if (config.exec && config.exec->provide_cluster_info) {
    nlohmann::ordered_json cluster = {{"server", config.server}};
    if (!config.tls_server_name.empty()) cluster["tls-server-name"] = config.tls_server_name;
    if (!certificate_authority.empty()) {
      cluster["certificate-authority-data"] = EncodeBase64(certificate_authority);
    }
    info["spec"]["cluster"] = std::move(cluster);
  }
  // Bytes that are no UTF-8 would make dump throw.
  return info.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<Credential> ReadExecCredential(JsonParser& parser, PaddedText output,
                                      const std::string& command) {
  const std::string where = "the output of " + Printable(command);
  Credential credential;
  std::string version;
  const auto status = [&](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
    if (key == "token") return ReadString(value, at, &credential.token);
    if (key == "clientCertificateData") {
      return ReadString(value, at, &credential.client_certificate);
    }
    if (key == "clientKeyData") return ReadString(value, at, &credential.client_key);
    if (key == "expirationTimestamp") return ReadInstant(value, at, &credential.expires_at);
    return Status();
  };
  const Status read =
      ReadObject(parser, output, JsonPlace{nullptr, "credential"},
                 [&](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
                   if (key == "apiVersion") return ReadString(value, at, &version);
                   return key == "status" ? ForEachField(value, at, status) : Status();
                 });
  if (!read.ok()) return read.WithContext(where);
  if (version != kVersion) {
    return InvalidArgument(where + ": apiVersion is '" + Printable(version) + "', expected " +
                           std::string(kVersion));
  }
  if (credential.client_certificate.empty() != credential.client_key.empty()) {
    return InvalidArgument(
        where + ": has one of clientCertificateData and clientKeyData without the other");
  }
  if (credential.token.empty() && credential.client_certificate.empty()) {
    return InvalidArgument(where + ": has neither status.token nor status.clientCertificateData");
  }
  // It would split the header.
  if (credential.token.find_first_of("\r\n ") != std::string::npos) {
    return InvalidArgument(where + ": status.token has a space or a line break");
  }
  return credential;
}

}  // namespace longhaul::engines::kubernetes
