#include "io/process/user_account.h"

#include <grp.h>
#include <pwd.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::io {
namespace {

// setfsuid reports no errors; the present value is read with a value that is never valid.
constexpr uid_t kNoUser = static_cast<uid_t>(-1);
constexpr gid_t kNoGroup = static_cast<gid_t>(-1);

void UseFilesAs(uid_t user, gid_t group) {
  // The group first: as another user than root this thread may not change it.
  (void)setfsgid(group);
  (void)setfsuid(user);
  CHECK(static_cast<gid_t>(setfsgid(kNoGroup)) == group) << "cannot use files as group " << group;
  CHECK(static_cast<uid_t>(setfsuid(kNoUser)) == user) << "cannot use files as user " << user;
}

}  // namespace

Result<UserAccount> FindUser(const std::string& name) {
  constexpr size_t kEntryBytes = 64 << 10;
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(kEntryBytes);
  const int error = getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (error != 0) return FromErrno(error, "cannot look up user " + Printable(name, 40));
  if (found == nullptr) {
    return NotFound("there is no user " + Printable(name, 40) + " on this machine");
  }
  UserAccount account;
  account.name = entry.pw_name;
  account.user = entry.pw_uid;
  account.group = entry.pw_gid;
  account.home = entry.pw_dir;
  account.shell = entry.pw_shell;
  int count = 64;
  account.groups.resize(static_cast<size_t>(count));
  if (getgrouplist(entry.pw_name, entry.pw_gid, account.groups.data(), &count) < 0) {
    account.groups.resize(static_cast<size_t>(count));
    if (getgrouplist(entry.pw_name, entry.pw_gid, account.groups.data(), &count) < 0) {
      return InternalError("cannot list the groups of user " + account.name);
    }
  }
  account.groups.resize(static_cast<size_t>(count));
  return account;
}

void SetUserVariables(const UserAccount& account, std::map<std::string, std::string>& environment) {
  environment["HOME"] = account.home;
  environment["USER"] = account.name;
  environment["LOGNAME"] = account.name;
  environment["SHELL"] = account.shell;
  for (const char* name :
       {"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "MAIL"}) {
    environment.erase(name);
  }
}

Status TakeGroupsOf(const UserAccount& account) {
  if (setgroups(account.groups.size(), account.groups.data()) == 0) return {};
  return FromErrno(errno, "cannot take the groups of user " + account.name);
}

FileIdentity::FileIdentity(const UserAccount* account) : changed_(account != nullptr) {
  if (changed_) UseFilesAs(account->user, account->group);
}

FileIdentity::~FileIdentity() {
  if (changed_) UseFilesAs(geteuid(), getegid());
}

}  // namespace longhaul::io
