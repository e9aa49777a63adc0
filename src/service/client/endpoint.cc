#include "service/client/endpoint.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "io/files/file.h"
#include "io/files/private_files.h"
#include "service/http/web_origin.h"

namespace longhaul::service {
namespace {

constexpr uint64_t kSmallFile = 64 << 10;

Result<Endpoint> ParseEndpoint(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return DataLoss("expected a JSON object");
  Endpoint endpoint;
  for (auto [key, target] :
       {std::pair{"rest", &endpoint.rest}, std::pair{"agents", &endpoint.agents},
        std::pair{"token_file", &endpoint.token_file}}) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string()) {
      return DataLoss("no text named \"" + std::string(key) + "\"");
    }
    *target = found->get<std::string>();
  }
  const auto ca_file = json.find("ca_file");
  if (ca_file != json.end() && ca_file->is_string()) endpoint.ca_file = ca_file->get<std::string>();
  const auto pid = json.find("pid");
  if (pid != json.end() && pid->is_number_integer()) endpoint.pid = pid->get<int64_t>();
  return endpoint;
}

std::string FindAuthority(const std::string& chosen) {
  if (!chosen.empty()) return chosen;
  const char* named = std::getenv("LONGHAUL_CA_FILE");
  if (named != nullptr && *named != '\0') return named;
  const char* home = std::getenv("HOME");
  for (const std::string& path :
       {std::string(home == nullptr ? "" : home) + "/.config/longhaul/ca.crt",
        std::string("/etc/longhaul/ca.crt")}) {
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

// Returns the URL of a controller that a user has named, with its scheme.
Result<std::string> UrlOf(const std::string& named) {
  if (named.empty()) {
    return InvalidArgument(
        "--controller has an empty address: expected a URL, or several with commas between");
  }
  std::string url = named;
  if (!url.starts_with("http://") && !url.starts_with("https://")) url = "http://" + url;
  if (url.starts_with("https://") || IsLoopback(HostOf(url))) return url;
  return InvalidArgument("--controller " + Printable(url) +
                         " would send the token unencrypted to another machine: use https://, "
                         "or forward a port (ssh -L) and use http://localhost:PORT");
}

}  // namespace

std::string HostOf(const std::string& url) {
  std::string rest = url.substr(url.find("://") + 3);
  rest = rest.substr(0, rest.find('/'));
  if (rest.starts_with('[')) return rest.substr(1, rest.find(']') - 1);
  return rest.substr(0, rest.find(':'));
}

Result<std::string> ReadToken(const std::string& path) {
  const Result<std::string> text = io::ReadPrivateText(path, kSmallFile);
  if (!text.ok()) return text.status().WithContext("the token file");
  const std::string token(Trim(Split(*text, '\n').front()));
  if (token.empty()) return DataLoss("the token file " + path + " is empty");
  return token;
}

Result<Endpoint> ReadEndpoint(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, io::ReadText(path, kSmallFile));
  Result<Endpoint> endpoint = ParseEndpoint(text);
  if (!endpoint.ok()) return endpoint.status().WithContext(path);
  endpoint->file = path;
  ASSIGN_OR_RETURN(endpoint->token, ReadToken(endpoint->token_file));
  return endpoint;
}

Status WriteEndpoint(const std::string& path, const Endpoint& endpoint) {
  nlohmann::ordered_json json = {{"rest", endpoint.rest},
                                 {"agents", endpoint.agents},
                                 {"token_file", endpoint.token_file},
                                 {"pid", endpoint.pid}};
  if (!endpoint.ca_file.empty()) json["ca_file"] = endpoint.ca_file;
  return io::WriteTextAtomically(io::PosixFileSystem(), path, json.dump(2) + "\n");
}

Result<Endpoint> FindEndpoint(const EndpointChoice& choice) {
  if (!choice.controller.empty()) {
    if (choice.token_file.empty()) {
      return InvalidArgument(
          "--controller needs --token-file as well: the file that the controller "
          "made in its state directory");
    }
    Endpoint endpoint;
    for (const std::string_view each : Split(choice.controller, ',')) {
      ASSIGN_OR_RETURN(const std::string url, UrlOf(std::string(Trim(each))));
      if (endpoint.rest.empty()) {
        endpoint.rest = url;
      } else {
        endpoint.others.push_back(url);
      }
    }
    endpoint.ca_file = FindAuthority(choice.ca_file);
    endpoint.token_file = choice.token_file;
    ASSIGN_OR_RETURN(endpoint.token, ReadToken(choice.token_file));
    return endpoint;
  }
  const char* named = std::getenv("LONGHAUL_ENDPOINT");
  const std::string path = named != nullptr && *named != '\0' ? named : "runs/endpoint.json";
  Result<Endpoint> endpoint = ReadEndpoint(path);
  if (!endpoint.ok() && endpoint.status().code() == Code::kNotFound) {
    return NotFound("no controller found at " + path +
                    ": start one (longhaul controller --state-dir DIR), or name one with "
                    "--controller URL --token-file FILE or LONGHAUL_ENDPOINT=DIR/endpoint.json");
  }
  // Without it the command would have the role of the controller's own token.
  if (endpoint.ok() && !choice.token_file.empty()) {
    endpoint->token_file = choice.token_file;
    ASSIGN_OR_RETURN(endpoint->token, ReadToken(choice.token_file));
  }
  return endpoint;
}

}  // namespace longhaul::service
