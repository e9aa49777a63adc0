#include "engines/kubernetes/client/credentials.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>

#include "base/temporary_folder.h"
#include "engines/kubernetes/client/client_fixture.h"
#include "io/process/process.h"

namespace longhaul::engines::kubernetes {
namespace {

class CredentialsTest : public ClientFixture {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  // A plug-in with this shell script. It appends a line to the file "runs".
  std::unique_ptr<CredentialSource> Plugin(const std::string& script,
                                           Duration limit = std::chrono::seconds(20)) {
    const std::string path =
        Write("plugin", "#!/bin/sh\necho run >>" + folder_.path() + "/runs\n" + script);
    chmod(path.c_str(), 0700);
    ExecSettings settings;
    settings.plugin.command = path;
    settings.plugin.arguments = {"one", "two"};
    settings.plugin.environment = {{"EXTRA", "three"}};
    settings.exec_info = R"({"kind":"ExecCredential"})";
    settings.environment = io::CurrentEnvironment();
    settings.limit = limit;
    return ExecCredentials(*loop_, std::move(settings));
  }

  int Runs() const {
    std::ifstream file(folder_.path() + "/runs");
    int lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }

  Result<CredentialSource::Shared> Get(CredentialSource& source) {
    std::optional<Result<CredentialSource::Shared>> got;
    source.Get([&got](Result<CredentialSource::Shared> result) { got = std::move(result); });
    while (!got) loop_->RunOnce(std::chrono::milliseconds(50));
    return *got;
  }

  static std::string Printing(const std::string& status) {
    return "printf '%s' '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{" +
           status + "}}'\n";
  }

  TemporaryFolder folder_{testing::TempDir()};
};

TEST_F(CredentialsTest, ReadTheTokenFileAgainAfterARefusal) {
  const std::string path = Write("token", "first-secret\n");
  server_->RequireToken("first-secret");
  Connect(TokenFileCredentials(path));
  MakePod("a");
  EXPECT_EQ(Do(GetCall(Pods(), {"ns", "a"})).http_status, 200);
  Write("token", "second-secret\n");
  server_->RequireToken("second-secret");
  EXPECT_EQ(Do(GetCall(Pods(), {"ns", "a"})).http_status, 200);
  EXPECT_EQ(client_->counts().refreshed_credentials, 1u);
  EXPECT_EQ(server_->requests(), 3u);
}

TEST_F(CredentialsTest, AreReadAgainOnlyOnceForACall) {
  server_->RequireToken("right");
  Connect(TokenFileCredentials(Write("token", "wrong-secret")));
  const Reply reply = Do(GetCall(Pods(), {"ns", "a"}));
  EXPECT_EQ(reply.verdict.outcome, Outcome::kUnauthenticated);
  EXPECT_EQ(reply.verdict.status.message().find("secret"), std::string::npos);
  EXPECT_EQ(server_->requests(), 2u);
}

TEST_F(CredentialsTest, ReadTheTokenFileAgainWhenItsTokenIsOld) {
  const auto kept = TokenFileCredentials(Write("token", "first"), std::chrono::minutes(1));
  const auto old = TokenFileCredentials(Write("token", "first"), Duration::zero());
  for (CredentialSource* const source : {kept.get(), old.get()}) ASSERT_TRUE(Get(*source).ok());
  Write("token", "second");
  EXPECT_EQ((*Get(*kept))->token, "first");
  EXPECT_EQ((*Get(*old))->token, "second");
}

TEST_F(CredentialsTest, RefuseAFileWithoutAToken) {
  for (const char* const text : {"", " \n", "two words", "a\nb"}) {
    const auto source = TokenFileCredentials(Write("token", text));
    EXPECT_EQ(Get(*source).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST_F(CredentialsTest, OfAPluginAreKeptUntilTheyExpire) {
  const auto source = Plugin(Printing("\"token\":\"t\""));
  const auto first = Get(*source);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->token, "t");
  EXPECT_EQ(*Get(*source), *first);
  EXPECT_EQ(Runs(), 1);
  const auto expired =
      Plugin(Printing(R"("token":"t","expirationTimestamp":"2020-01-01T00:00:00Z")"));
  ASSERT_TRUE(Get(*expired).ok());
  ASSERT_TRUE(Get(*expired).ok());
  EXPECT_EQ(Runs(), 3);
}

TEST_F(CredentialsTest, OfAPluginComeFromOneRunForAllThatWait) {
  const auto source = Plugin(Printing("\"token\":\"t\""));
  int got = 0;
  for (int i = 0; i < 5; ++i) {
    source->Get([&got](const Result<CredentialSource::Shared>& result) { got += result.ok(); });
  }
  EXPECT_EQ(got, 0);  // the loop was not blocked
  while (got < 5) loop_->RunOnce(std::chrono::milliseconds(50));
  EXPECT_EQ(Runs(), 1);
}

TEST_F(CredentialsTest, PassArgumentsAndEnvironmentToThePlugin) {
  const auto source = Plugin(
      "[ \"$1 $2 $EXTRA\" = 'one two three' ] || exit 3\n"
      "[ \"$KUBERNETES_EXEC_INFO\" = '{\"kind\":\"ExecCredential\"}' ] || exit 4\n" +
      Printing(R"("clientCertificateData":"C","clientKeyData":"K")"));
  const auto got = Get(*source);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)->client_certificate, "C");
  EXPECT_EQ((*got)->client_key, "K");
}

TEST_F(CredentialsTest, NameThePluginThatFails) {
  const auto failing = Plugin("echo secret; exit 7");
  const std::string where = "credential plug-in " + folder_.path() + "/plugin: ";
  EXPECT_EQ(Get(*failing).status().message(), where + "ended with exit code 7");
  const auto slow = Plugin("exec sleep 60", std::chrono::milliseconds(30));
  EXPECT_EQ(Get(*slow).status().message(), where + "did not end within 30 ms");
  const auto loud = Plugin("exec cat /dev/zero");
  EXPECT_EQ(Get(*loud).status().message(), where + "printed more than 1 MiB");
  const auto killed = Plugin("kill -9 $$");
  EXPECT_EQ(Get(*killed).status().message(), where + "was ended by signal 9");
  const auto silent = Plugin("true");
  EXPECT_EQ(Get(*silent).status().code(), Code::kInvalidArgument);
}

TEST_F(CredentialsTest, NameThePluginThatIsNotInstalled) {
  ExecSettings settings;
  settings.plugin.command = "no-such-plugin";
  settings.plugin.install_hint = "install it with x";
  settings.environment = io::CurrentEnvironment();
  const auto source = ExecCredentials(*loop_, std::move(settings));
  EXPECT_EQ(Get(*source).status().message(),
            "credential plug-in no-such-plugin (install it with x): no program named "
            "no-such-plugin in PATH");
}

TEST_F(CredentialsTest, MayBeDestroyedWhileThePluginRuns) {
  auto source = Plugin("exec sleep 60");
  source->Get([](const Result<CredentialSource::Shared>&) { FAIL(); });
  source.reset();
  loop_->RunOnce(std::chrono::milliseconds(1));
}

TEST_F(CredentialsTest, InsideAPodComeFromTheMountedFolder) {
  Write("token", "t");
  Write("ca.crt", "CA");
  Write("namespace", "training\n");
  const auto access = InClusterAccess(
      {{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}}, folder_.path());
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->http.server, "https://[fd00::1]:443");
  EXPECT_EQ(access->http.certificate_authority, "CA");
  EXPECT_EQ(access->namespace_name, "training");
  EXPECT_EQ((*Get(*access->credentials))->token, "t");
  EXPECT_EQ(InClusterAccess({}, folder_.path()).status().code(), Code::kFailedPrecondition);
}

TEST_F(CredentialsTest, OfAKubeconfigAreReadFromItsFiles) {
  Write("ca.pem", "CA");
  Write("cert.pem", "CERT");
  Write("key.pem", "KEY");
  const std::string path = Write("config", R"(
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://h:1", certificate-authority: ca.pem}}]
users: [{name: u, user: {client-certificate: cert.pem, client-key: key.pem}}]
)");
  const auto access = KubeconfigAccess(*loop_, path, "");
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->http.certificate_authority, "CA");
  EXPECT_EQ((*Get(*access->credentials))->client_key, "KEY");
  EXPECT_FALSE(KubeconfigAccess(*loop_, folder_.path() + "/absent", "").ok());
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
