package Howdah::CGI::Leftovers;
use v5.16;
use warnings;

use Howdah::XS ();

my %told;     # what the log has been told of a script
my %known;    # descriptors that were there before, by number

# Before the first script of a worker.
sub note {
    Howdah::XS::note_process();
    %known = _descriptors();
    return;
}

# Compiling a script may open some for as long as it is kept.
sub note_descriptors {
    %known = _descriptors();
    Howdah::XS::note_descriptors();
    return;
}

# Tells the log, once, of what the script has left behind that cannot be cleaned up. $left is the process's word for it.
sub tell {
    my ($file, $left) = @_;
    _tell_descriptors($file) if $left & Howdah::XS::LEFT_DESCRIPTORS;
    _tell($file, 'children', 'leaves children running that it did not wait for')
        if $left & Howdah::XS::LEFT_CHILDREN;
    return;
}

# Whatever it has closed of the worker's, no other script can do without.
sub tell_closed {
    my $file = shift;
    print {*STDERR}
        "howdah: $file closes descriptors that are not its own: this worker ends, and is replaced: have it close what it has "
        . "opened, or run it with mode=fork\n"
        if !$told{$file}{closed}++;
    return;
}

# Whether it has left threads, which would print into the answers of others; tells the log, once.
sub has_threads {
    my $file = shift;
    Howdah::XS::has_threads() or return 0;
    print {*STDERR}
        "howdah: $file leaves threads running: they end with this worker, which is replaced: join them in the "
        . "script, or run it with mode=fork\n"
        if !$told{$file}{threads}++;
    return 1;
}

sub _tell_descriptors {
    my $file = shift;
    my %now  = _descriptors();
    my @new  = grep { !defined $known{$_} && !_is_module($now{$_}) } sort { $a <=> $b } keys %now;
    my $list = join ', ', map { "$_ ($now{$_})" } @new;
    _tell($file, 'descriptors', 'leaves ' . (@new == 1 ? 'a descriptor' : 'descriptors') . " open: $list") if @new;
    %known = %now;
    Howdah::XS::note_descriptors();
    return;
}

# One with data behind its code stays open. %INC may have it by a path that is relative.
sub _is_module {
    my $path = shift;
    return scalar grep { defined && !ref && $path =~ m{(?:\A|/)\Q@{[s{\A\./}{}r]}\E\z} } values %INC;
}

sub _tell {
    my ($file, $what, $words) = @_;
    return if $told{$file}{$what}++;
    print {*STDERR}
        "howdah: $file $words; that stays so as long as this worker lives: see to it in the script, or run it "
        . "with mode=fork\n";
    return;
}

sub _descriptors {
    opendir my $handle, '/proc/self/fd' or return;
    my $own = fileno $handle;
    return map { $_ => readlink("/proc/self/fd/$_") // 'unknown' }
        grep { /^\d+$/ && $_ != $own && $_ > 2 } readdir $handle;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::CGI::Leftovers - what a CGI script leaves behind in its worker

=head1 DESCRIPTION

For L<Howdah::CGI::Keep>: a line in the error log, once for each script and thing, names what cannot be cleaned up.

=head2 note

Once in each worker.

=head2 note_descriptors

After a script was compiled in the worker.

=head2 has_threads($file)

Whether there are threads now.

=head2 tell($file, $left)

C<$left> is what C<Howdah::XS::restore_process> said.

=cut
