package Howdah::Inherited;
use v5.16;
use warnings;

use Fcntl ();

use Howdah ();
use Howdah::Generators ();
use Howdah::XS ();

# Where database drivers tell the number of their socket.
my %SOCKET_OF = (MariaDB => 'mariadb_sockfd', mysql => 'sockfd', Pg => 'pg_socket');

# Called by Howdah::Zygote around the loading of the application, and by nobody per request.
sub descriptors {
    my @opened = eval { opened() };
    return map { m{^(\d+) (?:pipe:|socket:|/)} } @opened;
}

# Each descriptor of this process with what it leads to, as `7 /var/log/app.log` or `8 socket:[4711]`.
sub opened {
    opendir my $dir, '/proc/self/fd' or die "cannot look at /proc/self/fd: $!\n";
    return map { "$_->[0] $_->[1]" } grep { defined $_->[1] && $_->[1] !~ m{^/proc/\d+/fd$} }
        map { [$_, readlink "/proc/self/fd/$_"] } grep { /^\d+$/ } readdir $dir;
}

# One sentence for each connection, each pipe or file to read from, and each kind of generator that every worker would inherit. Descriptors in @known are not the application's.
sub find {
    my ($class, @known) = @_;
    local $/ = "\n";    # which the application may have left otherwise
    my %known   = map { $_ => 1 } 0 .. 2, @known;
    my @found   = sort { $a <=> $b } grep { !$known{$_} } descriptors();
    my @handles = handles();
    my %owner   = map { $_->{socket} => $_ } grep { defined $_->{socket} } @handles;
    my @said;
    for my $number (@found) {
        my $peer   = peer($number) // next;
        my $handle = delete $owner{$number};
        next if $handle && $handle->{is_safe};
        push @said, _sentence("descriptor $number, connected to $peer" . ($handle ? ", $handle->{name}" : ''), $handle);
    }
    my @databases = grep { !defined $_->{socket} && !$_->{is_safe} } @handles;
    push @said, map { _sentence($_->{name}, $_) } @databases;
    push @said, map { _sentence_of_pipe($_) } _read_from_others(@found);
    push @said, map { _sentence_of_file(@$_) } _read_by_position(\@found, map { $_->{file} // () } @handles);
    push @said, _generators();
    push @said, _sentence_of_lmdb() if $INC{'LMDB_File.pm'} && Howdah::XS::has_object('LMDB::Env');
    my $others = Howdah::XS::count_threads() - 1;
    return @said, $others > 0 ? _sentence_of_threads($others) : ();
}

# What can be forgotten here need not be told.
sub _generators {
    Howdah::Generators->renew;
    my @classes = Howdah::Generators->classes;
    my @signers = Howdah::Generators->signers;
    return ((@classes ? _sentence_of_generators(@classes) : ()), @signers ? _sentence_of_signers(@signers) : ());
}

# Of @$numbers those files, as number and path, in which all processes that inherit them share one position: none that a database
# handle has, and none that is mapped into memory.
sub _read_by_position {
    my ($numbers, @databases) = @_;
    my @opened = @$numbers ? map { [split / /, $_, 2] } opened() : ();
    my %asked  = map { $_ => 1 } @$numbers;
    my %mapped = map { $_ => 1 } _mapped();
    my @files  = grep { $asked{$_->[0]} && !$mapped{$_->[1]} && _has_position($_->[0]) } @opened;
    return grep {
        my $path = $_->[1];
        !grep { index($path, $_) == 0 } @databases
    } @files;
}

sub _mapped {
    open my $maps, '<', '/proc/self/maps' or return;
    return map { m{ (/.*)$} ? $1 : () } <$maps>;
}

# A file that is read and not yet at its end. One that is only appended to is a log, and modules leave theirs open that have
# data behind their code.
sub _has_position {
    my $number = shift;
    return 0 if $number == (fileno(*main::DATA) // -1);
    open my $file, '<&', $number or return 0;
    my $flags = fcntl($file, Fcntl::F_GETFL(), 0) // return 0;
    return 0 if !-f $file || $flags & (Fcntl::O_WRONLY() | Fcntl::O_APPEND());
    return (sysseek $file, 0, Fcntl::SEEK_CUR()) < -s $file && !is_module($file);
}

# Whether that file is one that perl has loaded code from.
sub is_module {
    my ($device, $inode) = stat $_[0];
    for my $name (grep { defined && !ref } values %INC) {
        my @module = stat $name or next;
        return 1 if $module[0] == $device && $module[1] == $inode;
    }
    return 0;
}

# Those of @numbers that are pipes into which another process may still write. A pipe whose both ends are here is for the process
# itself, and one that is only written into may be a log.
sub _read_from_others {
    my @numbers = @_ or return;    # without /proc there are none
    my %pipe    = map { $_->[0] => $_->[1] } grep { $_->[1] =~ /^pipe:/ } map { [split / /, $_, 2] } opened();
    my %written = map { $pipe{$_} => 1 } grep { !_is_read_end($_) } keys %pipe;
    return grep { $pipe{$_} && !$written{$pipe{$_}} && _has_writer($_) } @numbers;
}

sub _is_read_end {
    my $number = shift;
    open my $in, '<', "/proc/self/fdinfo/$number" or return 0;
    my ($flags) = map { /^flags:\s+([0-7]+)/ ? oct $1 : () } <$in>;
    return ($flags & 3) == 0;      # O_ACCMODE, O_RDONLY
}

sub _has_writer {
    my $number = shift;
    require IO::Poll;
    open my $end, '<&', $number or return 0;
    my $poll = IO::Poll->new;
    $poll->mask($end => IO::Poll::POLLIN());
    $poll->poll(0);
    return !($poll->events($end) & IO::Poll::POLLHUP());
}

# Connected database handles of DBI, if the application has loaded that.
sub handles {
    return if !$INC{'DBI.pm'} || !DBI->can('visit_handles');
    my @handles;
    DBI->visit_handles(
        sub {
            my ($handle, $info) = @_;
            return 1 if $handle->{Type} eq 'dr';
            push @handles, _describe($handle) if $handle->{Type} eq 'db' && $handle->{Active};
            return 0;
        },
        {}
    );
    return @handles;
}

# Of a database in memory each worker has one of its own, with what the application has put into it. An
# application that connects anew in after_fork, and lets go of the old handle without a word to the database, knows
# what it does. A module may as well, which nobody can see.
sub _describe {
    my $handle = shift;
    my $driver = $handle->{Driver}{Name};
    my $number = $SOCKET_OF{$driver} ? eval { $handle->{$SOCKET_OF{$driver}} } : undef;
    my $quiet  = $handle->{AutoInactiveDestroy};
    my $file   = $driver eq 'SQLite' ? eval { $handle->sqlite_db_filename } || undef : undef;
    my $memory = $driver eq 'SQLite' && !defined $file && ($handle->{Name} // '') =~ /:memory:|mode=memory/;
    return {
        file     => $file,
        name     => sprintf('the DBI handle %s (%s %s)', ref $handle, $driver, $handle->{Name} // ''),
        socket   => $number,
        is_quiet => $quiet,
        is_safe  => $memory || $quiet && Howdah->has_hooks('after_fork'),
    };
}

# Whom a stream is connected to; undef for listening and datagram sockets, which can be shared.
sub peer {
    my $number = shift;
    require Socket;
    open my $socket, '+<&', $number or return;
    my $type = unpack 'i', getsockopt($socket, Socket::SOL_SOCKET(), Socket::SO_TYPE()) // return;
    return if $type == Socket::SOCK_DGRAM();
    my $address = getpeername $socket // return;
    my $family  = Socket::sockaddr_family($address);
    return _unix($address) if $family == Socket::AF_UNIX();
    my ($failed, $host, $port) = Socket::getnameinfo($address, Socket::NI_NUMERICHOST() | Socket::NI_NUMERICSERV());
    return $failed ? "a socket of family $family" : $host =~ /:/ ? "[$host]:$port" : "$host:$port";
}

# One end of a socketpair has no name, and may well be meant for the children.
sub _unix {
    my $path = eval { Socket::unpack_sockaddr_un($_[0]) } // '';
    $path =~ s/\0+\z//;
    $path =~ s/^\0/@/;
    return length $path ? $path : undef;
}

sub _sentence {
    my ($what, $handle) = @_;
    my $is_quiet = $handle && $handle->{is_quiet};
    my $unless   = $is_quiet ? ', unless a module like DBIx::Connector or Mojo::Pg sees to it' : '';
    my $more     = $handle && !$is_quiet ? ', and give the handle AutoInactiveDestroy if it must be there before' : '';
    return "workers inherit $what: they would all talk on it at once$unless; "
        . _ways_out('connect', 'disconnect', $more);
}

# A CGI script has no hooks: it is to run elsewhere as well.
sub _ways_out {
    my ($do, $undo, @more) = @_;
    return "$do where the script runs, and not while it is compiled, or serve it with mode=fork or --no-preload"
        if $INC{'Howdah/CGI/Keep.pm'};
    return "$do in Howdah->after_fork (or at the first request), or $undo in Howdah->before_fork" . join '', @more;
}

sub _sentence_of_pipe {
    my $number = shift;
    return
        "workers inherit descriptor $number, a pipe from another process: they would all read from it, and what each reads "
        . 'is gone for the others; '
        . _ways_out('start that process', 'close the pipe');
}

sub _sentence_of_file {
    my ($number, $path) = @_;
    return
        "workers inherit descriptor $number, the file $path: they would all read at one position, and each may get what "
        . 'another has looked for; '
        . _ways_out('open it', 'close it');
}

sub _sentence_of_generators {
    my $classes = join ', ', @_;
    return
        "workers inherit a random number generator, an object of $classes: each of them would draw the same numbers, as for "
        . 'session ids, unless a module that has it sees to that; '
        . _ways_out('create it', 'undefine it');
}

sub _sentence_of_signers {
    my $classes = join ', ', @_;
    return
        "workers inherit a key, an object of $classes: each of them would draw the same numbers, and two signatures that are "
        . 'made with one tell the private key (CVE-2026-41564); install CryptX 0.088, or '
        . _ways_out('create it', 'undefine it');
}

sub _sentence_of_lmdb {
    return
        'workers inherit an environment of LMDB, an object of LMDB::Env, which is of use in the process alone that has opened '
        . 'it; '
        . _ways_out('open it', 'undefine it');
}

sub _sentence_of_threads {
    my $number = shift;
    my $what   = $number == 1 ? 'the thread that was' : "the $number threads that were";
    return
        "workers inherit nothing of $what started while the application was loaded: a fork copies one alone, and a library that "
        . 'waits for others, as OpenMP does, then waits for ever; use it first in Howdah->after_fork (or at the first request), or '
        . 'serve with --no-preload';
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Inherited - finds what workers must not share of what they inherit

=head1 SYNOPSIS

  my @before = Howdah::Inherited->descriptors;
  load_the_application();
  warn "$_\n" for Howdah::Inherited->find(@before);

=head1 DESCRIPTION

A connection that is opened while the application is loaded is copied into every worker with the rest of the process:
two workers that use it at the same time mix up their questions and answers. A file that is opened to be read has one position
for all of them, so what one reads may be what another has looked for. A random number generator that was seeded gives all of
them the same numbers, and threads are not copied at all. The zygote looks for such things once, before the first worker is
forked, and tells the error log.

=head2 descriptors

The numbers of this process's sockets, pipes and files, for C<find> to know which were there before.

=head2 opened

Each descriptor of this process, with what it leads to: C<7 /var/log/app.log>, C<8 socket:[4711]>. Of two such lists the
difference is what was opened meanwhile.

=head2 handles, peer($descriptor)

The active database handles, as hashes with C<name>, C<socket>, C<file> and C<is_safe>; whom a stream socket is connected to.

=head2 is_module($handle)

Whether the file is one that perl has loaded code from, which stays open when data stand behind that.

=head2 find(@known)

A sentence for each stream socket that is connected to somebody and whose number is not among C<@known>, and for each
active database handle of L<DBI>, whether it has a socket or a file; not one of SQLite in memory. Listening sockets, datagrams and pairs of sockets
without a name are meant to be shared, or at least may be. A handle with C<AutoInactiveDestroy> is taken for one that
the application looks after when there is an C<after_fork> hook. A pipe counts when it is read from here and written into
by another process, as that of a program that the application has started and asks. A regular file counts when it is open to be
read and not at its end, unless it is only appended to, mapped into memory, a module's, or that of a database handle. Of
generators L<Howdah::Generators> knows whose objects have the state and do not notice a fork. An open environment of L<LMDB_File> counts. Threads count that run when it looks.

=cut
