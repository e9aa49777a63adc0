// Accounts of the user database, to start processes and to use files as another user than root.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace longhaul::io {

struct UserAccount {
  std::string name;
  uid_t user = 0;
  gid_t group = 0;
  std::vector<gid_t> groups;  // all, with `group`
  std::string home;
  std::string shell;
};

// Returns kNotFound for a name that the user database does not have.
Result<UserAccount> FindUser(const std::string& name);

// Sets HOME, USER, LOGNAME and SHELL, and removes the variables that name folders of the session of
// the user who started this process.
void SetUserVariables(const UserAccount& account, std::map<std::string, std::string>& environment);

// Gives this process, with all its threads, the supplementary groups of the account in place of its
// own. Requires root.
Status TakeGroupsOf(const UserAccount& account);

// While it exists, the calling thread uses files as this user: it opens, makes and removes what
// this user may, also where a path leads elsewhere than it seems. It remains root otherwise. Other
// threads are not affected; threads that it starts meanwhile are.
class FileIdentity {
 public:
  // Does nothing for null. Requires root otherwise, and TakeGroupsOf before.
  explicit FileIdentity(const UserAccount* account);
  ~FileIdentity();
  FileIdentity(const FileIdentity&) = delete;
  FileIdentity& operator=(const FileIdentity&) = delete;

 private:
  const bool changed_;
};

}  // namespace longhaul::io
