#include "engines/kubernetes/protocol/access/kubeconfig.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "engines/kubernetes/protocol/access/base64.h"
#include "engines/kubernetes/protocol/access/yaml_node.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr std::string_view kExecVersion = "client.authentication.k8s.io/v1";

// Reads values and makes errors of one file.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    const size_t slash = path.rfind('/');
    folder_ = slash == path.npos ? "" : path.substr(0, slash + 1);
  }

  Status Error(const YamlNode& at, const std::string& what) const {
    return InvalidArgument(path_ + ":" + std::to_string(at.line) + ": " + what);
  }

  // Stores the text of a key; leaves `out` where the key is absent or null. `where` is the place of
  // `map` for messages: "cluster 'main'".
  Status Text(const YamlNode& map, std::string_view key, const std::string& where,
              std::string* out) const {
    const YamlNode* const found = map.Find(key);
    if (found == nullptr || found->kind == YamlNode::Kind::kNull) return Status();
    if (found->kind != YamlNode::Kind::kScalar) {
      return Error(*found, where + ": " + std::string(key) + " is a list or a map, expected text");
    }
    *out = found->text;
    return Status();
  }

  Status Flag(const YamlNode& map, std::string_view key, const std::string& where,
              bool* out) const {
    std::string text;
    RETURN_IF_ERROR(Text(map, key, where, &text));
    if (text.empty()) return Status();
    if (text != "true" && text != "false") {
      return Error(*map.Find(key), where + ": " + std::string(key) + " is '" + Printable(text) +
                                       "', expected true or false");
    }
    *out = text == "true";
    return Status();
  }

  // Reads KEY-data (base64) or, without it, the path KEY.
  Status Pem(const YamlNode& map, std::string_view key, const std::string& where,
             PemSource* out) const {
    const std::string data_key = std::string(key) + "-data";
    std::string data;
    RETURN_IF_ERROR(Text(map, data_key, where, &data));
    if (!data.empty()) {
      std::optional<std::string> decoded = DecodeBase64(data);
      if (!decoded || decoded->find("-----BEGIN") == decoded->npos) {
        return Error(*map.Find(data_key), where + ": " + data_key +
                                              " is not PEM text in base64: write the file's path "
                                              "to " +
                                              std::string(key) + " instead");
      }
      out->text = *std::move(decoded);
      return Status();
    }
    RETURN_IF_ERROR(Text(map, key, where, &out->path));
    out->path = Resolved(out->path);
    return Status();
  }

  std::string Resolved(const std::string& path) const {
    return path.empty() || path.front() == '/' ? path : folder_ + path;
  }

  // The entry named `name` of a list such as "clusters", and in it the map under `inner`.
  Result<const YamlNode*> Entry(const YamlNode& root, std::string_view list, std::string_view inner,
                                const std::string& name, const YamlNode& used_at) const {
    const YamlNode* const entries = root.Find(list);
    std::string known;
    if (entries != nullptr && entries->kind == YamlNode::Kind::kSequence) {
      for (const YamlNode& entry : entries->children) {
        std::string entry_name;
        RETURN_IF_ERROR(Text(entry, "name", std::string(list), &entry_name));
        if (entry_name == name) return Inner(entry, inner, name);
        if (known.size() < 200) known += (known.empty() ? "" : ", ") + Printable(entry_name, 60);
      }
    }
    return Error(used_at, std::string(list) + " has no entry named '" + Printable(name) +
                              "'; it has: " + (known.empty() ? "none" : known));
  }

 private:
  Result<const YamlNode*> Inner(const YamlNode& entry, std::string_view inner,
                                const std::string& name) const {
    const YamlNode* const map = entry.Find(inner);
    if (map == nullptr || map->kind != YamlNode::Kind::kMap) {
      return Error(entry,
                   "the entry '" + Printable(name) + "' has no map '" + std::string(inner) + "'");
    }
    return map;
  }

  const std::string path_;
  std::string folder_;
};

// "https://host:port/path" without what surrounds the host.
std::string_view HostOf(std::string_view server) {
  const size_t scheme = server.find("://");
  std::string_view host = server.substr(scheme == server.npos ? 0 : scheme + 3);
  host = host.substr(0, host.find('/'));
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool IsLoopback(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  // A name that only begins so, such as 127.example.com, is no address.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
}

Status CheckServer(const Reader& reader, const YamlNode& cluster, const std::string& where,
                   Kubeconfig* config) {
  const YamlNode* const at = cluster.Find("server");
  if (at == nullptr || config->server.empty()) {
    return reader.Error(cluster, where + ": server is missing, expected https://HOST:PORT");
  }
  // Targets begin with a slash.
  while (config->server.ends_with('/')) config->server.pop_back();
  const std::string_view server = config->server;
  const std::string_view host = HostOf(server);
  const bool plain = server.starts_with("http://");
  // Such a character could split the request's first line.
  const bool control = std::any_of(server.begin(), server.end(), [](char c) { return c <= ' '; });
  if ((!plain && !server.starts_with("https://")) || host.empty() || control) {
    return reader.Error(
        *at, where + ": server is '" + Printable(server) + "', expected https://HOST:PORT");
  }
  // libcurl would send them, and messages would print them.
  if (server.find('@') != server.npos) {
    return reader.Error(*at, where +
                                 ": server has a user name, expected https://HOST:PORT and the "
                                 "credentials in users");
  }
  if (plain && !IsLoopback(host)) {
    return reader.Error(*at, where + ": server is '" + Printable(server) +
                                 "', which is not encrypted: http is permitted for a loopback "
                                 "address only");
  }
  if (config->skip_tls_verification && !IsLoopback(host)) {
    return reader.Error(*cluster.Find("insecure-skip-tls-verify"),
                        where +
                            ": insecure-skip-tls-verify is permitted for a loopback address "
                            "only: name the cluster's certificate-authority instead");
  }
  return Status();
}

Status ReadCluster(const Reader& reader, const YamlNode& cluster, const std::string& name,
                   Kubeconfig* config) {
  const std::string where = "cluster '" + Printable(name) + "'";
  RETURN_IF_ERROR(reader.Text(cluster, "server", where, &config->server));
  RETURN_IF_ERROR(reader.Text(cluster, "tls-server-name", where, &config->tls_server_name));
  RETURN_IF_ERROR(reader.Text(cluster, "proxy-url", where, &config->proxy_url));
  RETURN_IF_ERROR(
      reader.Flag(cluster, "insecure-skip-tls-verify", where, &config->skip_tls_verification));
  RETURN_IF_ERROR(
      reader.Pem(cluster, "certificate-authority", where, &config->certificate_authority));
  return CheckServer(reader, cluster, where, config);
}

Status ReadExecEnvironment(const Reader& reader, const YamlNode& list, const std::string& where,
                           ExecPlugin* plugin) {
  for (const YamlNode& entry : list.children) {
    std::string name;
    std::string value;
    RETURN_IF_ERROR(reader.Text(entry, "name", where, &name));
    RETURN_IF_ERROR(reader.Text(entry, "value", where, &value));
    if (name.empty() || name.find('=') != name.npos) {
      return reader.Error(entry, where + ": an entry of env has the name '" + Printable(name) +
                                     "', expected the name of a variable");
    }
    plugin->environment[name] = value;
  }
  return Status();
}

Status ReadExec(const Reader& reader, const YamlNode& exec, const std::string& user,
                Kubeconfig* config) {
  const std::string where = user + ": exec";
  ExecPlugin plugin;
  std::string version;
  std::string interactive;
  RETURN_IF_ERROR(reader.Text(exec, "apiVersion", where, &version));
  RETURN_IF_ERROR(reader.Text(exec, "command", where, &plugin.command));
  RETURN_IF_ERROR(reader.Text(exec, "installHint", where, &plugin.install_hint));
  RETURN_IF_ERROR(reader.Text(exec, "interactiveMode", where, &interactive));
  RETURN_IF_ERROR(reader.Flag(exec, "provideClusterInfo", where, &plugin.provide_cluster_info));
  if (version != kExecVersion) {
    return reader.Error(exec, where + ": apiVersion is '" + Printable(version) + "', expected " +
                                  std::string(kExecVersion) +
                                  ": install a plug-in of that version");
  }
  if (plugin.command.empty()) {
    return reader.Error(exec, where + ": command is missing, expected a program's name or path");
  }
  if (interactive == "Always") {
    return reader.Error(exec, where +
                                  ": interactiveMode is 'Always', which requires a terminal, "
                                  "expected Never or IfAvailable");
  }
  // As kubectl does: a name is looked up in PATH, a path is relative to the file.
  if (plugin.command.find('/') != plugin.command.npos) {
    plugin.command = reader.Resolved(plugin.command);
  }
  if (const YamlNode* const list = exec.Find("args"); list != nullptr) {
    for (const YamlNode& argument : list->children) {
      if (argument.kind != YamlNode::Kind::kScalar) {
        return reader.Error(argument, where + ": an entry of args is no text");
      }
      plugin.arguments.push_back(argument.text);
    }
  }
  if (const YamlNode* const list = exec.Find("env"); list != nullptr) {
    RETURN_IF_ERROR(ReadExecEnvironment(reader, *list, where, &plugin));
  }
  config->exec = std::move(plugin);
  return Status();
}

Status ReadUser(const Reader& reader, const YamlNode& user, const std::string& name,
                Kubeconfig* config) {
  const std::string where = "user '" + Printable(name) + "'";
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kRemoved = {{
      {"username", "Kubernetes 1.19 removed passwords: use a token or a client certificate"},
      {"password", "Kubernetes 1.19 removed passwords: use a token or a client certificate"},
      {"auth-provider", "Kubernetes 1.26 removed it: use an exec plug-in"},
  }};
  for (const auto& [key, remedy] : kRemoved) {
    if (const YamlNode* const found = user.Find(key); found != nullptr) {
      return reader.Error(
          *found, where + ": " + std::string(key) + " is not supported; " + std::string(remedy));
    }
  }
  RETURN_IF_ERROR(reader.Pem(user, "client-certificate", where, &config->client_certificate));
  RETURN_IF_ERROR(reader.Pem(user, "client-key", where, &config->client_key));
  RETURN_IF_ERROR(reader.Text(user, "token", where, &config->token));
  RETURN_IF_ERROR(reader.Text(user, "tokenFile", where, &config->token_file));
  config->token_file = reader.Resolved(config->token_file);
  if (config->client_certificate.empty() != config->client_key.empty()) {
    const bool has_key = config->client_certificate.empty();
    return reader.Error(user, where + ": has " + (has_key ? "client-key" : "client-certificate") +
                                  " without " + (has_key ? "client-certificate" : "client-key"));
  }
  // A token that could not be sent in a header would split it.
  if (config->token.find_first_of("\r\n ") != config->token.npos) {
    return reader.Error(*user.Find("token"), where +
                                                 ": token has a space or a line break, expected "
                                                 "the bare token");
  }
  if (const YamlNode* const exec = user.Find("exec");
      exec != nullptr && exec->kind == YamlNode::Kind::kMap) {
    return ReadExec(reader, *exec, where, config);
  }
  return Status();
}

}  // namespace

Result<Kubeconfig> ParseKubeconfig(std::string_view text, const std::string& path,
                                   std::string_view context) {
  ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, path));
  const Reader reader(path);
  if (root.kind != YamlNode::Kind::kMap) {
    return reader.Error(root, "is no map, expected a kubeconfig with clusters, users and contexts");
  }
  Kubeconfig config;
  config.context = context;
  if (context.empty()) {
    RETURN_IF_ERROR(reader.Text(root, "current-context", "kubeconfig", &config.context));
  }
  if (config.context.empty()) {
    return reader.Error(root,
                        "current-context is missing: choose one with `kubectl config "
                        "use-context NAME`");
  }
  const YamlNode* const current = root.Find("current-context");
  ASSIGN_OR_RETURN(const YamlNode* const used,
                   reader.Entry(root, "contexts", "context", config.context,
                                context.empty() && current != nullptr ? *current : root));
  const std::string where = "context '" + Printable(config.context) + "'";
  std::string cluster_name;
  std::string user_name;
  RETURN_IF_ERROR(reader.Text(*used, "cluster", where, &cluster_name));
  RETURN_IF_ERROR(reader.Text(*used, "user", where, &user_name));
  RETURN_IF_ERROR(reader.Text(*used, "namespace", where, &config.namespace_name));
  ASSIGN_OR_RETURN(const YamlNode* const cluster,
                   reader.Entry(root, "clusters", "cluster", cluster_name, *used));
  RETURN_IF_ERROR(ReadCluster(reader, *cluster, cluster_name, &config));
  // A cluster may permit some requests to everyone.
  if (user_name.empty()) return config;  // anonymous
  ASSIGN_OR_RETURN(const YamlNode* const user,
                   reader.Entry(root, "users", "user", user_name, *used));
  RETURN_IF_ERROR(ReadUser(reader, *user, user_name, &config));
  return config;
}

}  // namespace longhaul::engines::kubernetes
