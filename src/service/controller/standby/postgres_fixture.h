// A PostgreSQL server for tests and benchmarks, on a socket in a folder of its own.
#pragma once

#include <grp.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "service/controller/standby/postgres_connection.h"

namespace longhaul::service {

class PostgresServer {
 public:
  // Why there can be no server on this machine; empty if there can.
  static std::string Missing() {
    if (Programs().empty())
      return "PostgreSQL is not installed (Debian: apt install postgresql-15)";
    const bool root = ::geteuid() == 0;
    if (root && ::getpwnam("postgres") == nullptr) return "there is no user postgres";
    return "";
  }

  // Requires that Missing() is empty.
  PostgresServer() {
    std::string pattern = "/tmp/longhaul-postgres-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    const passwd* const account =
        ::geteuid() == 0 ? ::getpwnam("postgres") : ::getpwuid(::geteuid());
    CHECK(account != nullptr);
    user_ = account->pw_name;
    CHECK(::chown(folder_.c_str(), account->pw_uid, account->pw_gid) == 0);
    const pid_t made = Spawn({"initdb", "--no-sync", "--auth=trust", "--username=" + user_,
                              "--locale=C", "--encoding=UTF8", "-D", folder_ + "/data"});
    int status = 0;
    CHECK(::waitpid(made, &status, 0) == made && status == 0) << "initdb in " << folder_;
    server_ = Spawn({"postgres", "-D", folder_ + "/data", "-k", folder_, "-c",
                     "listen_addresses=", "-c", "fsync=on"});
  }
  ~PostgresServer() {
    ::kill(server_, SIGQUIT);  // without writing what is removed anyway
    ::waitpid(server_, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  PostgresAddress Address(const std::string& database) const {
    const auto address =
        PostgresAddress::Parse("postgresql:///" + database + "?host=" + folder_ + "&user=" + user_);
    CHECK(address.ok()) << address.status();
    return *address;
  }

  // Makes a new database; the first call waits until the server accepts connections.
  PostgresAddress MakeDatabase() {
    const std::string name = "test" + std::to_string(++databases_);
    PostgresConnection connection(Address("postgres"));
    Status made = Unavailable("not tried yet");
    for (int i = 0; i < 600 && made.code() == Code::kUnavailable; ++i) {
      made = connection.Query(("CREATE DATABASE " + name).c_str(), {}, std::chrono::seconds(30))
                 .status();
      if (!made.ok()) ::usleep(50'000);
    }
    CHECK(made.ok()) << made.message();
    return Address(name);
  }

 private:
  static std::string Programs() {
    std::error_code error;
    for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql", error)) {
      const std::string bin = version.path() / "bin";
      if (::access((bin + "/initdb").c_str(), X_OK) == 0) return bin;
    }
    return "";
  }

  pid_t Spawn(std::vector<std::string> command) const {
    command[0] = Programs() + "/" + command[0];
    std::vector<char*> arguments;
    for (std::string& each : command) arguments.push_back(each.data());
    arguments.push_back(nullptr);
    const passwd* const account = ::getpwnam(user_.c_str());
    const pid_t child = ::fork();
    CHECK(child >= 0);
    if (child > 0) return child;
    const bool is_other = account != nullptr && account->pw_uid != ::geteuid();
    const bool became =
        !is_other || (::initgroups(user_.c_str(), account->pw_gid) == 0 &&
                      ::setgid(account->pw_gid) == 0 && ::setuid(account->pw_uid) == 0);
    const std::string log = folder_ + "/log";
    if (!became || ::chdir(folder_.c_str()) != 0) ::_exit(1);
    if (std::freopen(log.c_str(), "a", stdout) == nullptr) ::_exit(1);
    if (std::freopen(log.c_str(), "a", stderr) == nullptr) ::_exit(1);
    ::execv(arguments[0], arguments.data());
    ::_exit(1);
  }

  std::string folder_;
  std::string user_;
  pid_t server_ = 0;
  int databases_ = 0;
};

}  // namespace longhaul::service
