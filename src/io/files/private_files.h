// Access rights of the files that this process makes.
//
// Only the user may read logs, state and run folders, with any umask: the programs that write them
// call MakeFilesPrivate first, so that it also applies to the files of libraries (SQLite). Files
// that are meant to be shared use SharedFileSystem, which follows the umask that the user has set.
// Children that Start (process.h) runs get the user's umask back.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"
#include "io/fd.h"

namespace longhaul::io {

class FileSystem;

// After this call the process's new directories have mode 0700 and its new files 0600. Call it
// before other threads exist. A second call does nothing.
void MakeFilesPrivate();

// The umask that the user has set: the one from before MakeFilesPrivate.
mode_t UserUmask();

// PosixFileSystem (file.h) for files shared with other users: new files and directories follow the
// umask that the user has set.
FileSystem& SharedFileSystem();

// Gives a new file the mode that the user's umask permits.
void ShareFile(const Fd& file);

// Removes all rights of other users from an existing file of this user; does nothing when it is
// absent. Returns whether there were any.
Result<bool> TightenFile(const std::string& path);

// The warning about an existing directory that other users may enter: names it, its mode and the
// remedy. Empty when only its owner may enter it, or when it is absent.
std::string WarningOfOpenDirectory(const std::string& path);

}  // namespace longhaul::io
