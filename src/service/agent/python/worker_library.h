// Finds liblonghaul.so and the Python package for workers that load the worker API at run time.
#pragma once

#include <string>

namespace longhaul::service {

// Returns $LONGHAUL_LIBRARY if it is set, else liblonghaul.so beside this program, in ../worker_api
// (a build folder) or in ../lib (an installation); empty when there is none.
std::string FindWorkerLibrary();

// The same for a program in `directory` and this value of $LONGHAUL_LIBRARY (null: not set).
std::string FindWorkerLibraryFrom(const std::string& directory, const char* named);

// Returns the folder that contains the Python package `longhaul` and nothing else, so that a
// worker's Python can import it without a copy of its own: ../lib/longhaul/python of this program's
// folder (an installation); empty when there is none.
std::string FindPythonPackages();

// The same for a program in `directory`.
std::string FindPythonPackagesFrom(const std::string& directory);

}  // namespace longhaul::service
