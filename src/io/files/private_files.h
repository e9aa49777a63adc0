// Who may read the files that this process makes.
//
// Logs, state and run folders are for their user alone, whatever the umask: the programs that write
// them call MakeFilesPrivate first, so that also the files of libraries (SQLite) are. What is made
// for others to share uses SharedFileSystem, which follows the umask that the user has set.
// Children that Start (process.h) runs get the user's umask back.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"
#include "io/fd.h"

namespace longhaul::io {

class FileSystem;

// From now on the process's new directories have mode 0700 and its new files 0600. Call it before
// there are other threads. A second call does nothing.
void MakeFilesPrivate();

// The umask that the user has set: that of before MakeFilesPrivate.
mode_t UserUmask();

// PosixFileSystem (file.h) for what is shared with other users: new files and directories follow
// the umask that the user has set.
FileSystem& SharedFileSystem();

// Gives a new file the mode that the umask of the user leaves it.
void ShareFile(const Fd& file);

// Takes all rights of others from an existing file of ours; nothing happens to one that is absent.
// Returns whether there were any.
Result<bool> TightenFile(const std::string& path);

// What to say of an existing directory that others may enter: names it, its mode and the remedy.
// Empty when only its owner may, or when there is none.
std::string WarningOfOpenDirectory(const std::string& path);

}  // namespace longhaul::io
