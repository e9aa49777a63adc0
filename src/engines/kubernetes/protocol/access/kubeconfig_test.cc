#include "engines/kubernetes/protocol/access/kubeconfig.h"

#include <gtest/gtest.h>

#include "engines/kubernetes/protocol/access/base64.h"
#include "engines/kubernetes/protocol/access/exec_credential.h"

namespace longhaul::engines::kubernetes::kubeconfig_test {
namespace {

// The authority-data is "-----BEGIN X-----" in base64.
constexpr std::string_view kConfig = R"(apiVersion: v1
kind: Config
current-context: work
contexts:
- name: work
  context: {cluster: main, user: alice, namespace: training}
- name: other
  context:
    cluster: second
    user: bob
- name: plugin
  context: {cluster: main, user: exec-user}
clusters:
- name: main
  cluster:
    server: https://10.0.0.1:6443/
    certificate-authority-data: LS0tLS1CRUdJTiBYLS0tLS0=
    tls-server-name: kube.example
- name: second
  cluster:
    server: https://127.0.0.1:6443
    insecure-skip-tls-verify: true
    proxy-url: http://proxy:3128
users:
- name: alice
  user: {client-certificate: alice.pem, client-key: /keys/alice.key}
- name: bob
  user: {tokenFile: token}
- name: exec-user
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./get-token
      args: [--cluster, main]
      env:
      - {name: REGION, value: "north"}
      interactiveMode: IfAvailable
      provideClusterInfo: true
)";

Result<Kubeconfig> Parse(std::string_view text, std::string_view context = "") {
  return ParseKubeconfig(text, "/home/u/config", context);
}

std::string With(std::string_view from, std::string_view to) {
  std::string text(kConfig);
  const size_t at = text.find(from);
  CHECK(at != text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Kubeconfig, ReadsTheCurrentContext) {
  const Result<Kubeconfig> config = Parse(kConfig);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->context, "work");
  EXPECT_EQ(config->namespace_name, "training");
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->certificate_authority.text, "-----BEGIN X-----");
  EXPECT_EQ(config->tls_server_name, "kube.example");
  EXPECT_EQ(config->client_certificate.path, "/home/u/alice.pem");
  EXPECT_EQ(config->client_key.path, "/keys/alice.key");
}

TEST(Kubeconfig, ReadsAnotherContext) {
  const Result<Kubeconfig> config = Parse(kConfig, "other");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->namespace_name, "default");
  EXPECT_TRUE(config->skip_tls_verification);
  EXPECT_EQ(config->proxy_url, "http://proxy:3128");
  EXPECT_EQ(config->token_file, "/home/u/token");
}

TEST(Kubeconfig, ReadsAnExecPlugin) {
  const Result<Kubeconfig> config = Parse(kConfig, "plugin");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_TRUE(config->exec.has_value());
  EXPECT_EQ(config->exec->command, "/home/u/./get-token");
  EXPECT_EQ(config->exec->arguments, (std::vector<std::string>{"--cluster", "main"}));
  EXPECT_EQ(config->exec->environment.at("REGION"), "north");
  EXPECT_TRUE(config->exec->provide_cluster_info);
}

TEST(Kubeconfig, NamesFileKeyValueAndRemedy) {
  const struct {
    const char* from;
    const char* to;
    const char* context;
    const char* message;
  } kRows[] = {
      {"current-context: work", "current-context: wrok", "",
       "/home/u/config:3: contexts has no entry named 'wrok'; it has: work, other, plugin"},
      {"current-context: work\n", "", "",
       "/home/u/config:1: current-context is missing: choose one with `kubectl config use-context "
       "NAME`"},
      {"cluster: main, user: alice", "cluster: mian, user: alice", "",
       "/home/u/config:6: clusters has no entry named 'mian'; it has: main, second"},
      {"https://10.0.0.1:6443/", "10.0.0.1:6443", "",
       "/home/u/config:16: cluster 'main': server is '10.0.0.1:6443', expected https://HOST:PORT"},
      {"https://10.0.0.1:6443/", "http://10.0.0.1:6443", "",
       "/home/u/config:16: cluster 'main': server is 'http://10.0.0.1:6443', which is not "
       "encrypted: http is permitted for a loopback address only"},
      {"https://127.0.0.1:6443", "https://127.evil.example", "other",
       "/home/u/config:22: cluster 'second': insecure-skip-tls-verify is permitted for a loopback "
       "address only: name the cluster's certificate-authority instead"},
      {"insecure-skip-tls-verify: true", "insecure-skip-tls-verify: yes", "other",
       "/home/u/config:22: cluster 'second': insecure-skip-tls-verify is 'yes', expected true or "
       "false"},
      {"LS0tLS1CRUdJTiBYLS0tLS0=", "bm8=", "",
       "/home/u/config:17: cluster 'main': certificate-authority-data is not PEM text in base64: "
       "write the file's path to certificate-authority instead"},
      {"{tokenFile: token}", "{password: secret-word}", "other",
       "/home/u/config:28: user 'bob': password is not supported; Kubernetes 1.19 removed "
       "passwords: use a token or a client certificate"},
      {"{tokenFile: token}", "{token: \"secret-word x\"}", "other",
       "/home/u/config:28: user 'bob': token has a space or a line break, expected the bare token"},
      {", client-key: /keys/alice.key", "", "",
       "/home/u/config:26: user 'alice': has client-certificate without client-key"},
      {"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1", "plugin",
       "/home/u/config:32: user 'exec-user': exec: apiVersion is "
       "'client.authentication.k8s.io/v1beta1', expected client.authentication.k8s.io/v1: install "
       "a plug-in of that version"},
      {"interactiveMode: IfAvailable", "interactiveMode: Always", "plugin",
       "/home/u/config:32: user 'exec-user': exec: interactiveMode is 'Always', which "
       "requires a terminal, expected Never or IfAvailable"},
      {"tls-server-name: kube.example", "tls-server-name: [a]", "",
       "/home/u/config:18: cluster 'main': tls-server-name is a list or a map, expected text"},
  };
  for (const auto& row : kRows) {
    const Result<Kubeconfig> config = Parse(With(row.from, row.to), row.context);
    EXPECT_EQ(config.status().message(), row.message) << row.to;
    EXPECT_EQ(config.status().message().find("secret-word"), std::string::npos) << row.to;
  }
}

TEST(Kubeconfig, RefusesWhatIsNoKubeconfig) {
  for (const char* const text : {"", "a", "[]", "{", "- a\n- b", "a: &x 1\nb: *x",
                                 "a: 1\n---\nb: 2", "? [a]\n: b", "~: a", "\xff\xfe"}) {
    EXPECT_EQ(Parse(text).status().code(), Code::kInvalidArgument) << text;
  }
  EXPECT_FALSE(Parse(std::string(100, '[')).ok());
  EXPECT_FALSE(Parse(std::string((1 << 20) + 1, ' ')).ok());
}

TEST(Base64, IsReadBack) {
  for (const std::string text : {"", "a", "ab", "abc", "abcd", "\xff\x00\x10z"}) {
    EXPECT_EQ(DecodeBase64(EncodeBase64(text)), text);
  }
  EXPECT_EQ(EncodeBase64("Man"), "TWFu");
  EXPECT_EQ(DecodeBase64(" TW\nFu "), "Man");
  for (const char* const wrong : {"A", "AB", "ABC", "A===", "AB=C", "AB!=", "ABCD="}) {
    EXPECT_EQ(DecodeBase64(wrong), std::nullopt) << wrong;
  }
}

TEST(ExecCredential, ReadsATokenWithItsEnd) {
  JsonParser parser;
  const PaddedString output(R"({"kind":"ExecCredential",
    "apiVersion":"client.authentication.k8s.io/v1",
    "status":{"token":"t","expirationTimestamp":"2026-01-31T08:00:00Z"}})");
  const Result<Credential> credential = ReadExecCredential(parser, output.view(), "get-token");
  ASSERT_TRUE(credential.ok()) << credential.status();
  EXPECT_EQ(credential->token, "t");
  EXPECT_EQ(credential->expires_at, InstantFromNanoseconds(1'769'846'400'000'000'000));
}

TEST(ExecCredential, RefusesWhatHasNoCredential) {
  JsonParser parser;
  const std::string version = R"("apiVersion":"client.authentication.k8s.io/v1")";
  for (const std::string& text :
       {std::string("{}"), std::string(""), "{" + version + "}", "{" + version + R"(,"status":{}})",
        "{" + version + R"(,"status":{"token":"secret x"}})",
        "{" + version + R"(,"status":{"token":7}})",
        "{" + version + R"(,"status":{"clientKeyData":"secret"}})",
        std::string(R"({"apiVersion":"v1","status":{"token":"secret"}})")}) {
    const PaddedString output(text);
    const Result<Credential> credential = ReadExecCredential(parser, output.view(), "get-token");
    EXPECT_EQ(credential.status().code(), Code::kInvalidArgument) << text;
    EXPECT_EQ(credential.status().message().find("secret"), std::string::npos);
  }
}

TEST(ExecCredential, DescribesTheClusterWhereThePluginWantsIt) {
  Kubeconfig config = *Parse(kConfig, "plugin");
  EXPECT_EQ(ExecInfo(config, "CA"),
            R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",)"
            R"("spec":{"interactive":false,"cluster":{"server":"https://10.0.0.1:6443",)"
            R"("tls-server-name":"kube.example","certificate-authority-data":"Q0E="}}})");
  config.exec->provide_cluster_info = false;
  EXPECT_EQ(ExecInfo(config, "CA").find("cluster"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes::kubeconfig_test
