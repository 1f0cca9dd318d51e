package Howdah::Privileges;
use v5.16;
use warnings;

use Howdah::XS ();
use POSIX ();

# Whoever is not root does not come so far.
my $WHO_MAY = 'root may if it has CAP_SETUID and CAP_SETGID and, in a user namespace, the id is mapped there; '
    . 'else leave out --user and --group';

# Called by Howdah::Loader in a zygote that plackup has forked. One that howdah starts has changed before there is a perl.
sub drop {
    my ($class, %to) = @_;
    my ($uid, $primary, $name) = defined $to{user} ? _user($to{user}) : ();
    my $gid = defined $to{group} ? _group($to{group}) : $primary;
    die "user $to{user} is not in the list of users, which has no group for it: name that as well\n" if !defined $gid;
    my @groups = defined $name ? @{Howdah::XS::groups_of($name, $gid)} : ();
    Howdah::XS::leave_root();
    {
        local $! = 0;

        # The saved one as well, which $( and $) leave as it was, for the application to come back to.
        POSIX::setgid($gid);
        $) = join ' ', $gid, $gid, @groups;    ## no critic (RequireLocalizedPunctuationVars)
        die "cannot change to group $gid: $!; $WHO_MAY\n" if $! || $) + 0 != $gid || $( + 0 != $gid;
    }
    return if !defined $uid;
    POSIX::setuid($uid) or die "cannot change to user $to{user}: $!; $WHO_MAY\n";
    die "still user $< after changing to $to{user}\n" if $< != $uid || $> != $uid;
    Howdah::XS::give_up_capabilities() if $uid != 0;
    Howdah::XS::stay_dumpable();
    return;
}

sub _group {
    my $wanted = shift;
    my $gid    = $wanted =~ /^\d+$/ ? $wanted : getgrnam $wanted;
    die "there is no group '$wanted'\n" if !defined $gid;
    return $gid;
}

sub _user {
    my $wanted = shift;
    my ($name, undef, $uid, $gid) = $wanted =~ /^\d+$/ ? getpwuid $wanted : getpwnam $wanted;
    return ($uid, $gid, $name) if defined $uid;
    die "there is no user '$wanted'\n" if $wanted !~ /^\d+$/;
    return $wanted;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Privileges - change to an ordinary user

=head1 SYNOPSIS

  use Howdah::Privileges;

  Howdah::Privileges->drop(user => 'www-data');
  Howdah::Privileges->drop(user => 'www-data', group => 'web');

=head1 DESCRIPTION

For a zygote that L<Plack::Handler::Howdah> has forked: the front binds its ports as root; the application never needs to be. The
C<howdah> command changes the user of its own zygotes before it executes perl.

=head2 drop(user => $user, group => $group)

Changes real, effective and saved ids. Either may be a name or a number. Without a group it is the user's; the user's
further groups are taken over. Without a user only the group changes, and the further groups are given up. Dies when
the name is unknown, when a number that the list of users does not have comes without a group, or when the process may not
change.

=cut
