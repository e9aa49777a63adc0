// Access rights of the files that this process makes.
//
// Only the user may read logs, state and run folders, with any umask: the programs that write them
// call MakeFilesPrivate first, so that it also applies to the files of libraries (SQLite). Files
// that are meant to be shared use SharedFileSystem, which follows the umask that the user has set.
// Children that Start (process.h) runs get the user's umask back.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

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

// Returns kPermissionDenied, with the file, its mode and the remedy, if other users have any right
// to it or another user owns it; kNotFound when it is absent.
Status CheckPrivate(const std::string& path);

// Reads a file that only this user may use, such as a token or a key; CheckPrivate's errors, and
// kResourceExhausted above `limit` bytes.
Result<std::string> ReadPrivateText(const std::string& path, uint64_t limit);

// Replaces a file by one of mode 0600, with any umask: a reader, also after a crash, sees the old
// text or the new one.
Status WritePrivateText(const std::string& path, std::string_view text);

// The warning about an existing directory that other users may enter: names it, its mode and the
// remedy. Empty when only its owner may enter it, or when it is absent.
std::string WarningOfOpenDirectory(const std::string& path);

}  // namespace longhaul::io
