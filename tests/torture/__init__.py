"""Attacks on the two packages: damaged files, failing disks, killed writers, hostile servers.

**Nouns.** A *campaign* makes numbered *cases* out of a seed: case 17 of a campaign is the same
today and tomorrow.  Cases run in *workers*, child processes with a limit of memory and of time, so
that a crash of the interpreter or a hang is counted and not suffered.  Each case ends with a
*verdict*; the *tally* counts them by campaign.

``python -m tests.torture`` runs all campaigns and prints the tally (``make torture``);
``--case mutation-hdf5:17`` repeats one case in this process, with its traceback.
"""
